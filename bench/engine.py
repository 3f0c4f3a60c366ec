"""CPU of a request as the collection grows: whole, by stage, its ranking alone, and SQLite's FTS5 in the same run.

    make bench-engine [ARGS="DIR --sizes 10000 100000 1000000 --embedder static"]

Chunks are recombined sentences of the labeled sets in DIR and of installed packages (bench/fixtures/texts.py). Each
request has a window of 8 000 tokens of other text. A query counts with its fastest run of five, since other work on
the machine only adds; stages are medians. FTS5 returns the 100 best by BM25. With --embedder, query embeddings are
computed beforehand. Takes two minutes for 10 000 and 100 000 chunks, half an hour for a million.
"""

import argparse
import os
import re
import sqlite3
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

import numpy as np
from bench.fixtures import texts

from millgate import Millgate
from millgate.pipeline.stages.propagate import PropagatePolicy, propagate
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve

RUNS = 5
QUERIES = 60
WINDOW_CHUNKS = 80  # of about 100 tokens each
QUIET = {"review": {"enabled": False}, "trace": {"keep": 0}, "log": {"enabled": False}}


def fastest_ms(work, queries):
    """CPU milliseconds of each query, the fastest of several runs."""
    best = np.full(len(queries), np.inf)
    for _ in range(RUNS):
        for at, query in enumerate(queries):
            began = time.process_time()
            work(query)
            best[at] = min(best[at], time.process_time() - began)
    return 1e3 * best


def full_text(path, rows):
    database = sqlite3.connect(path)
    database.execute("create virtual table passages using fts5(title, text, tokenize = 'porter')")
    values = ((row["title"], row["text"]) for row in rows)
    database.executemany("insert into passages values (?, ?)", values)
    database.commit()
    return database


def search_full_text(database, query):
    words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
    sql = "select rowid from passages where passages match ? order by bm25(passages) limit 100"
    return database.execute(sql, (words,)).fetchall()


def show(name, times):
    p50, p95 = np.percentile(times, (50, 95))
    print(f"  {name:24} p50 {p50:7.2f} ms   p95 {p95:7.2f} ms", flush=True)


def measure(folder, size, embedder):
    queries = texts.questions(folder, QUERIES)
    window = [chunk.text for chunk in texts.chunks(folder, WINDOW_CHUNKS, seed=99)]
    settings = {**QUIET, "embed": {"model": embedder}}
    with tempfile.TemporaryDirectory() as root:
        store = Path(root, "kb")
        with Millgate.open(store, **settings) as gate:
            began = time.process_time()
            gate.add(texts.rows(folder, size))
            gate.index()
            spent = time.process_time() - began
        disk = sum(file.stat().st_size for file in (store / "index").rglob("*"))
        with Millgate.open(store, **settings) as gate:
            began = time.process_time()
            view = gate.index()
            opened = time.process_time() - began
            print(f"{size:,} chunks: added and indexed at {size / spent:,.0f} a CPU second, {disk / size:,.0f} bytes of index a chunk, opened in {1e3 * opened:.0f} ms", flush=True)  # fmt: skip
            measure_requests(gate, queries, window)
            measure_ranking(gate, view, queries)
        database = full_text(Path(root, "fts.db"), texts.rows(folder, size))
        show("SQLite FTS5", fastest_ms(lambda query: search_full_text(database, query), queries))
        database.close()


def measure_requests(gate, queries, window):
    stages = defaultdict(list)

    def ask(query):
        for step in gate.context(query, window=window).trace.steps:
            stages[step.stage].append(1e3 * step.seconds)

    show("context()", fastest_ms(ask, queries))
    for stage, times in stages.items():
        print(f"    {stage:22} p50 {statistics.median(times):7.2f} ms")


def measure_ranking(gate, view, queries):
    embedded = {query: gate.embed(query) for query in queries}

    def rank(query):
        found = retrieve(query, view, RetrievePolicy(), vector=embedded[query])
        propagate(found, query, view, PropagatePolicy())

    show("retrieve and propagate", fastest_ms(rank, queries))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="a folder of labeled sets")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000])
    parser.add_argument("--embedder", default="none")
    given = parser.parse_args()
    for size in given.sizes:
        measure(given.folder, size, given.embedder)


if __name__ == "__main__":
    main()
