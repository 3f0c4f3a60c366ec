"""The whole engine: `make bench-engine DATA=DIR [SIZE=100000]`.

CPU a request from query to fenced block, all stages, no embedder, with an 8 k-token window of other text, over a SQLite
store of recombined text (bench/synthetic.py). Each query counts with its fastest of five runs; stages are medians.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import synthetic

from headgate.gateway import Headgate
from headgate.types import Request, Window

RUNS = 5
WINDOW_TOKENS = 8_000


def rows(folder, size):
    for chunk in synthetic.chunks(folder, size):
        yield {"id": chunk.id, "title": chunk.title, "text": chunk.text}


def window(folder):
    texts = [chunk.text for chunk in synthetic.chunks(folder, WINDOW_TOKENS // 100, seed=99)]
    return Window(tuple(texts))


async def measure(hg, queries, seen):
    stages = defaultdict(list)
    best = np.full(len(queries), np.inf)
    for run in range(RUNS):
        for at, query in enumerate(queries):
            began = time.process_time()
            context = await hg.acontext_for(Request(query, window=seen))
            best[at] = min(best[at], time.process_time() - began)
            if run:
                for step in context.trace.steps:
                    stages[step.stage].append(step.seconds)
    return best, stages


def main(folder, size):
    dice = random.Random(1)
    queries = [q for found in synthetic.queries(folder) for q in dice.sample(found, 20)]
    with (
        tempfile.TemporaryDirectory() as root,
        Headgate.open(
            Path(root) / "kb",
            review={"enabled": False},
            trace={"keep": 0},
            log={"enabled": False},
        ) as hg,
    ):
        began = time.process_time()
        hg.add(rows(folder, size))
        hg.index()
        spent = time.process_time() - began
        best, stages = asyncio.run(measure(hg, queries, window(folder)))
    print(f"{size:,} chunks, added and indexed at {size / spent:,.0f} chunks a CPU second")
    p50, p95 = np.percentile(1e3 * best, (50, 95))
    print(f"a request: CPU p50 {p50:.1f} ms, p95 {p95:.1f} ms")
    for stage, seconds in stages.items():
        print(f"  {stage:10} {1e3 * statistics.median(seconds):6.2f} ms")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python bench/engine.py DIR [SIZE]")
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
