"""Growth: what a request, a window and a stream cost as they get larger, beside a peer in the same run.

    corpus   `context()` and retrieval alone over 10 000 to 1 000 000 chunks    beside SQLite's FTS5 (BM25, 100 best)
    window   finding what of 100 chunks a window of 1 k to 1 M tokens holds     beside difflib, block against block
    stream   following a stream of 10 thousand to 10 million characters         beside a pattern over the text so far

Figures are CPU time, the fastest of several runs. `measure(...)` gives rows; bench/suite.py writes them down.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

import difflib
import random
import re
import sqlite3
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import synthetic

from headgate import Headgate
from headgate.guard import RepeatDetector
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.text.fingerprint import WindowIndex

QUERIES = 30
RUNS = 3
CHUNK = 4  # characters in a streamed chunk, about a token


def cpu(work, runs=RUNS):
    """Seconds of CPU time, the fastest of several runs."""
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def corpus(data, sizes):
    """(chunks, ms of context(), ms of retrieve, ms of FTS5) for each size."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as root:
            chunks = list(synthetic.chunks(data, size))
            dice = random.Random(1)
            queries = [" ".join(dice.choice(chunks).text.split()[:9]) for _ in range(QUERIES)]
            rows = [{"id": c.id, "title": c.title, "text": c.text} for c in chunks]
            fts = full_text(Path(root, "fts.db"), chunks)
            with Headgate.open(Path(root, "kb"), trace={"keep": 0}, log={"enabled": False}) as hg:
                hg.add(rows)
                hg.index()
                del rows, chunks
                snapshot = hg._parts.indexes.snapshot(hg.tenant, "main")
                rank = partial(retrieve, view=snapshot, policy=RetrievePolicy())
                find = partial(best_of, fts)
                whole = [cpu(partial(hg.context, q)) for q in queries]
                ranked = [cpu(partial(rank, q)) for q in queries]
                peer = [cpu(partial(find, q)) for q in queries]
            fts.close()
        yield size, *(1e3 * float(np.median(each)) for each in (whole, ranked, peer))


def full_text(path, chunks):
    database = sqlite3.connect(path)
    database.execute("create virtual table passages using fts5(title, text, tokenize = 'porter')")
    database.executemany("insert into passages values (?, ?)", ((c.title, c.text) for c in chunks))
    database.commit()
    return database


def best_of(database, query):
    words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
    sql = "select rowid from passages where passages match ? order by bm25(passages) limit 100"
    return database.execute(sql, (words,)).fetchall()


def window(data, sizes):
    """(tokens, ms of ours, ms of difflib) for each size of the window, over 100 chunks."""
    texts = [chunk.text for chunk in synthetic.chunks(data, 100)]
    for size in sizes:
        seen = [chunk.text for chunk in synthetic.chunks(data, max(1, size // 180), seed=99)]
        ours = cpu(lambda seen=seen: WindowIndex.of(seen).coverage(texts))
        # difflib is quadratic: a sample of the pairs, scaled up
        pairs = [(a, b) for a in texts[:3] for b in seen[:10]]
        spent = cpu(lambda pairs=pairs: [overlap(a, b) for a, b in pairs], runs=1)
        yield size, 1e3 * ours, 1e3 * spent * len(texts) * len(seen) / len(pairs)


def overlap(text, seen):
    match = difflib.SequenceMatcher(None, text, seen, autojunk=False)
    return sum(block.size for block in match.get_matching_blocks()) / max(1, len(text))


def stream(data, sizes, peer_most=100_000):
    """(characters, µs a chunk of ours, µs a chunk of the pattern or nothing) for each length."""
    text = " ".join(chunk.text for chunk in synthetic.chunks(data, 1 + max(sizes) // 500))
    text = (text * (1 + max(sizes) // len(text)))[: max(sizes)]
    for size in sizes:
        pieces = [text[at : at + CHUNK] for at in range(0, size, CHUNK)]
        ours = cpu(lambda pieces=pieces: follow(pieces), runs=1)
        peer = None
        if size <= peer_most:
            peer = 1e6 * cpu(lambda pieces=pieces: look_back(pieces), runs=1)
        yield size, 1e6 * ours / len(pieces), peer and peer / len(pieces)


def follow(pieces):
    detector = RepeatDetector()
    for piece in pieces:
        if detector.feed(piece):
            detector.reset()


REPEAT = re.compile(r"(.{20,400})\1\1$", re.DOTALL)


def look_back(pieces):
    """What people write first: a pattern for three copies at the end, after every tenth chunk."""
    text = ""
    for at, piece in enumerate(pieces):
        text += piece
        if at % 10 == 0:
            REPEAT.search(text[-2000:])


def plot(rows, names, path, *, title, x, y):
    """A growth curve on logarithmic axes, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for at, name in enumerate(names, 1):
        points = [(row[0], row[at]) for row in rows if row[at] is not None]
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y, title=title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=100)
