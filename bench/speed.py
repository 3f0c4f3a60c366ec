"""Speed of the index: `make bench-speed DATA=DIR [SIZES="100000 1000000"]`.

Text is recombined from the sets in DIR and from package descriptions (bench/synthetic.py). Figures are CPU time:
the index part of ingest per chunk, and retrieve + propagate per query, from the saved and mapped index; each query
counts with its fastest of five runs, since other work on the machine only ever adds.
"""

import random
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import synthetic

from headgate.index.indexes import Indexes
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.sqlite import SqliteStore
from headgate.types import Document

RUNS = 5
BATCH = 10_000


def ingest(store, indexes, chunks):
    """CPU seconds for the store and for the index."""
    spent = [0.0, 0.0]
    while batch := list(islice(chunks, BATCH)):
        documents = [Document(c.id, title=c.title, chunks=(c,)) for c in batch]
        for part, work in enumerate(
            (lambda: store.put("t", documents), lambda: indexes.view("t", "main"))  # noqa: B023
        ):
            began = time.process_time()
            work()
            spent[part] += time.process_time() - began
    began = time.process_time()
    indexes.close()
    return spent[0], spent[1] + time.process_time() - began


def ask(view, query):
    began = time.process_time()
    found = retrieve(query, view, RetrievePolicy())
    propagate(found, query, view, PropagatePolicy())
    return time.process_time() - began


def measure(folder, size):
    dice = random.Random(1)
    queries = [q for found in synthetic.queries(folder) for q in dice.sample(found, 30)]
    with tempfile.TemporaryDirectory() as root:
        store = SqliteStore(Path(root) / "kb")
        indexes = Indexes(store, Path(root) / "kb" / "index")
        stored, indexed = ingest(store, indexes, synthetic.chunks(folder, size))
        began = time.process_time()
        view = Indexes(store, Path(root) / "kb" / "index").view("t", "main")
        opened = time.process_time() - began
        best = np.min([[ask(view, query) for query in queries] for _ in range(RUNS)], axis=0)
        disk = sum(f.stat().st_size for f in (Path(root) / "kb" / "index").rglob("*"))
        store.close()
    print(
        f"{size:>9,} chunks   store {1e6 * stored / size:6.0f} µs   index {1e6 * indexed / size:6.0f} µs"
        f"   open {1e3 * opened:5.0f} ms   query mean {1e3 * best.mean():6.2f} ms"
        f"   p95 {1e3 * np.percentile(best, 95):6.2f} ms   {disk / size:5.0f} bytes a chunk"
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python bench/speed.py DIR [SIZE ...]")
    for size in [int(n) for n in sys.argv[2:]] or [100_000, 1_000_000]:
        measure(sys.argv[1], size)
