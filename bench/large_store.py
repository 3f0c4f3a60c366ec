"""A large store: what a request costs over it, what it costs while another process adds, and how long a backup takes.

    python bench/large_store.py FOLDER DATA [--chunks 500000]

The store is made in FOLDER where it is not there yet; one that was stopped halfway goes on. Text is recombined from the
labeled sets in DATA (bench/synthetic.py). A request is `context()` as the service asks it: from the last complete
index, while a thread follows. Its cost is CPU time of this process without that thread; as in the service, what was
imported is not searched for garbage. The backup runs beside a writer.
"""

import argparse
import gc
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

import numpy as np
import synthetic

from headgate.gateway import Headgate
from headgate.operations.backup import backup

QUIET = {"trace": {"keep": 0}, "log": {"enabled": False}}
QUERIES = 30
RUNS = 3
ADDED = 10_000
WRITER = """
import os, sys
sys.path.insert(0, {bench!r})
import synthetic
from headgate.gateway import Headgate
chunks = synthetic.chunks({data!r}, {count}, seed=11)
rows = [{{"id": f"{{os.getpid()}}-{{c.id}}", "title": c.title, "text": c.text}} for c in chunks]
with Headgate.open({folder!r}, **{quiet!r}) as gate:
    print("ready", flush=True)
    sys.stdin.readline()
    gate.add(rows)
"""


def rows(data, count):
    for c in synthetic.chunks(data, count):
        yield {"id": c.id, "title": c.title, "text": c.text}


def make(folder, data, count):
    with Headgate.open(folder, **QUIET) as gate:
        held = gate.collections().get("main")
        if held is None or held.chunks < count:
            gate.add(rows(data, count))


def following():
    """CPU seconds of the threads that follow the change feed."""
    mine = [t for t in threading.enumerate() if t.name == "headgate-indexes"]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(t.ident)) for t in mine)


def ask(gate, query):
    """CPU milliseconds of one request."""
    began, other = time.process_time(), following()
    gate.context(query)
    return 1e3 * (time.process_time() - began - (following() - other))


def writer(folder, data, count):
    code = WRITER.format(
        bench=str(Path(__file__).parent), data=data, count=count, folder=folder, quiet=QUIET
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    return process


def begin(process):
    process.stdin.write("\n")
    process.stdin.flush()


def requests(folder, data):
    dice = random.Random(1)
    texts = [chunk.text for chunk in synthetic.chunks(data, 2_000)]
    queries = [" ".join(dice.choice(texts).split()[:9]) for _ in range(QUERIES)]
    other = writer(folder, data, ADDED)
    with Headgate.open(folder, wait_for_index=False, **QUIET) as gate:
        gate.index()
        gc.freeze()
        held = gate.collections()["main"].chunks
        alone = np.min([[ask(gate, query) for query in queries] for _ in range(RUNS)], axis=0)
        print(f"{held:,} chunks: a request takes {np.median(alone):.1f} ms CPU (p50), {np.percentile(alone, 95):.1f} (p95)")  # fmt: skip
        usual = dict(zip(queries, alone, strict=True))
        begin(other)
        beside = []
        while other.poll() is None or len(beside) < QUERIES:
            query = dice.choice(queries)
            beside.append(ask(gate, query) - usual[query])
        print(f"beside {ADDED:,} chunks added by another process: {len(beside)} requests, {np.median(beside):+.1f} ms at the median, {max(beside):+.1f} ms at most")  # fmt: skip


def copy(folder, data):
    other = writer(folder, data, 100_000)
    begin(other)
    try:
        with tempfile.TemporaryDirectory() as target:
            began = time.monotonic()
            made = backup(Path(folder), Path(target) / "copy")
            print(f"backup of {made.bytes / 1e9:.2f} GB beside a writer: {time.monotonic() - began:.1f} s, checked")  # fmt: skip
    finally:
        other.kill()
        other.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("data")
    parser.add_argument("--chunks", type=int, default=500_000)
    given = parser.parse_args()
    make(given.folder, given.data, given.chunks)
    requests(given.folder, given.data)
    copy(given.folder, given.data)


if __name__ == "__main__":
    main()
