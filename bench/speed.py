"""Speed of the index: `make bench-speed DATA=DIR [SIZES="100000 1000000"] [EMBEDDER=static]`.

Text is recombined from the sets in DIR and from package descriptions (bench/synthetic.py). Figures are CPU time:
`Headgate.add` in all (cut, stored, fingerprinted, indexed), store and index alone, and retrieve + propagate per query,
from the saved and mapped index; each query counts with its fastest of ten runs, since other work on the machine only
ever adds. With an embedder the query's embedding is at hand, as it is when a query comes again.
"""

import argparse
import os
import random
import tempfile
import time
from itertools import islice
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

import numpy as np
import synthetic

from headgate.gateway import Headgate
from headgate.index.indexes import Indexes
from headgate.models.embed import EmbedPolicy, embedder
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.sqlite.store import SqliteStore
from headgate.types import Document

RUNS = 10
BATCH = 10_000
ADDED = 50_000


def ingest(store, indexes, chunks):
    """CPU seconds for the store and for the index."""
    spent = [0.0, 0.0]
    while batch := list(islice(chunks, BATCH)):
        documents = [Document(c.id, title=c.title, chunks=(c,)) for c in batch]
        for part, work in enumerate(
            (lambda: store.put("t", documents), lambda: indexes.snapshot("t", "main"))  # noqa: B023
        ):
            began = time.process_time()
            work()
            spent[part] += time.process_time() - began
    began = time.process_time()
    indexes.close()
    return spent[0], spent[1] + time.process_time() - began


def add(folder, size):
    """Chunks a second of CPU time that `Headgate.add` takes in, index included, into a folder."""
    rows = [{"id": c.id, "title": c.title, "text": c.text} for c in synthetic.chunks(folder, size)]
    with tempfile.TemporaryDirectory() as root:
        began = time.process_time()
        with Headgate.open(Path(root) / "kb") as gate:
            made = gate.add(rows)
        spent = time.process_time() - began
    print(
        f"{size:>9,} rows     Headgate.add {made.chunks / spent:6.0f} chunks a second of CPU time"
    )


def ask(view, query, vector=None):
    began = time.process_time()
    found = retrieve(query, view, RetrievePolicy(), vector=vector)
    propagate(found, query, view, PropagatePolicy())
    return time.process_time() - began


def measure(folder, size, model):
    dice = random.Random(1)
    queries = [q for found in synthetic.queries(folder) for q in dice.sample(found, 30)]
    with tempfile.TemporaryDirectory() as root:
        store = SqliteStore(Path(root) / "kb")
        folder_of = Path(root) / "kb" / "index"
        model = embedder(EmbedPolicy(model=model))
        indexes = Indexes(store, folder_of, model)
        stored, indexed = ingest(store, indexes, synthetic.chunks(folder, size))
        began = time.process_time()
        opener = Indexes(store, folder_of, model)
        view = opener.snapshot("t", "main")
        opened = time.process_time() - began
        asked = [(query, opener.vector(query)) for query in queries]
        best = np.min([[ask(view, *pair) for pair in asked] for _ in range(RUNS)], axis=0)
        disk = sum(f.stat().st_size for f in folder_of.rglob("*"))
        store.close()
    print(
        f"{size:>9,} chunks   store {1e6 * stored / size:6.0f} µs   index {1e6 * indexed / size:6.0f} µs"
        f"   open {1e3 * opened:5.0f} ms   query mean {1e3 * best.mean():6.2f} ms"
        f"   p95 {1e3 * np.percentile(best, 95):6.2f} ms   {disk / size:5.0f} bytes a chunk"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("sizes", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--embedder", default="none")
    given = parser.parse_args()
    add(given.folder, min(given.sizes[0], ADDED))
    for size in given.sizes:
        measure(given.folder, size, given.embedder)
