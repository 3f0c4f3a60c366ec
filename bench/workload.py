"""What the long runs share: made-up texts, a service to try things on, a stopped writer, and figures of a process."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

WORDS = [
    "ferry", "tide", "harbor", "refund", "ledger", "signal", "winter", "engine", "market", "river", "bridge", "garden",
]  # fmt: skip
HOLDER = """
import sqlite3, sys, time
raw = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
raw.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(3600)
"""


def text(rng, words=80):
    """Some words, and a number that was hardly met before."""
    return " ".join(rng.choices(WORDS, k=words)) + f" {rng.randrange(10**9)}"


def serve(folder, **env):
    """A service over a store in a process of its own; the process and its address."""
    line = [sys.executable, "-m", "headgate", "serve", "--port", "0", "--store", str(folder)]
    server = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **env},
    )
    return server, re.search(r"http://[\d.]+:\d+", server.stdout.readline())[0]


@contextmanager
def _killed(process):
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stopped_writer(folder):
    """A process that was stopped inside its write transaction, for the time of a `with` block."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(Path(folder) / "headgate.db")],
        stdout=subprocess.PIPE,
        text=True,
    )
    holder.stdout.readline()
    holder.send_signal(signal.SIGSTOP)
    return _killed(holder)


def count_descriptors(pid):
    """Open files of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def status(pid, name):
    """A figure of /proc/PID/status, in kilobytes where it is a size."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0
