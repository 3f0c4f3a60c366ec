"""What an embedder adds to contexts: make bench-vectors EMBEDDER=static DATA="DIR ..." [QUESTIONS=100] [CHUNKS=500]

For each set the share of the evidence in contexts of 1 000 tokens and nDCG@10, without and with the embedder, and how
many answerable questions come back empty with it; then the means, and which sets gain, stand and lose. CHUNKS takes a
part of each set, what answers its questions and others by chance up to so many, for encoders that are slow.
"""

import argparse
import random
from dataclasses import replace
from pathlib import Path

import numpy as np

from headgate.evaluate.labeled import sample, sets
from headgate.evaluate.retrieval import evaluate

BUDGET = 1000
STANDS = 0.0005  # a difference that rounds to nothing


def shrink(labeled, most):
    """The set with at most so many passages: what is labeled, then others by chance, in the order of the file."""
    if most is None or most >= len(labeled.rows):
        return labeled
    asked = {query.get("collection", "main") for query in labeled.queries}
    needed = {passage for query in labeled.queries for passage in labeled.labels[query["_id"]]}
    others = [r["id"] for r in labeled.rows if r["collection"] in asked and r["id"] not in needed]
    room = max(0, most - len(needed))
    kept = needed | set(random.Random(labeled.name).sample(others, min(room, len(others))))
    return replace(labeled, rows=[row for row in labeled.rows if row["id"] in kept])


def measure(labeled, embedder):
    run = evaluate(labeled, embedder=embedder, budgets=[BUDGET])
    found = run.ours.means()
    return found[f"context_evidence@{BUDGET}"], found["ndcg@10"], found[f"empty@{BUDGET}"]


def main(embedder, folders, questions, chunks):
    print(f"{'':16}  chunks  questions  without  with          nDCG@10         empty", flush=True)
    table = {}
    for one in (sample(one, questions) for folder in folders for one in sets(Path(folder))):
        labeled = shrink(one, chunks)
        row = [*measure(labeled, "none"), *measure(labeled, embedder)]
        table[one.name] = row
        show(one.name, row, f"{len(labeled.rows):8}{len(labeled.queries):11}")
    show("mean", np.mean([*table.values()], 0), " " * 19)
    change = {name: row[3] - row[0] for name, row in table.items()}
    gain = [name for name, by in change.items() if by > STANDS]
    lose = [f"{name} {by:.3f}" for name, by in change.items() if by < -STANDS]
    stand = len(change) - len(gain) - len(lose)
    print(f"{len(gain)} sets gain, {stand} stand, {len(lose)} lose: {', '.join(lose)}")


def show(name, row, sizes):
    shown, order, empty, with_shown, with_order, with_empty = row
    print(
        f"{name:16}{sizes}{shown:9.3f}{with_shown:7.3f} ({with_shown - shown:+.3f})"
        f"{order:8.3f}{with_order:7.3f}{empty:8.3f}{with_empty:6.3f}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embedder", help="static, minilm, a folder or a URL")
    parser.add_argument(
        "folders", nargs="+", metavar="DIR", help="labeled sets, or folders of them"
    )
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--chunks", type=int)
    given = parser.parse_args()
    main(given.embedder, given.folders, given.questions, given.chunks)
