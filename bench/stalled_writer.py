"""A writer that is stopped inside its transaction: how long contexts take beside it.

    python bench/stalled_writer.py [--requests 100]

A service answers contexts over 2 000 documents, by turns without and beside a process that holds the store's write lock
and was stopped by SIGSTOP. It fails where the median beside it is above 1.5 times the usual one, or where one waits for
the lock.
"""

import argparse
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx2
from workload import serve, stopped_writer, text

from headgate.gateway import Headgate

ROUNDS = 5
ALLOWED, LONGEST_S = 1.5, 10.0


def ask(client, rng, count):
    """The seconds of some contexts."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        client.post("/v1/context", json={"query": text(rng, 3)}).raise_for_status()
        found.append(time.perf_counter() - began)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100)
    count = parser.parse_args().requests // ROUNDS
    rng, folder = random.Random(1), Path(tempfile.mkdtemp()) / "kb"
    with Headgate.open(folder) as gate:
        gate.add([{"id": f"d{n}", "text": text(rng)} for n in range(2_000)])
    server, url = serve(folder)
    usual, beside = [], []
    try:
        with httpx2.Client(base_url=url, timeout=90) as client:
            ask(client, rng, 20)
            for _ in range(ROUNDS):
                usual += ask(client, rng, count)
                with stopped_writer(folder):
                    beside += ask(client, rng, count)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        shutil.rmtree(folder.parent)
    for name, times in (("usual", usual), ("beside a stopped writer", beside)):
        print(f"{name:24} p50 {1000 * statistics.median(times):6.1f} ms, at most {1000 * max(times):7.1f} ms of {len(times)}")  # fmt: skip
    ratio = statistics.median(beside) / statistics.median(usual)
    print(f"ratio of the medians {ratio:.2f}")
    sys.exit(ratio > ALLOWED or max(beside) > LONGEST_S)


if __name__ == "__main__":
    main()
