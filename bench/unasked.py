"""Unasked: how often context is added before a message that wants nothing, and how much evidence a question keeps.

    make bench-unasked ARGS="DIR"      on the labeled sets in a folder; --turns FILE for messages of your own

Each message of tests/promises/turns.txt is asked in the largest collection of each set, and what would be added to it
unasked is counted. Each question is asked in its own collection: the share of its evidence in the context, and in what
would be added unasked. Takes half a minute a set.
"""

import argparse
from collections import Counter
from pathlib import Path

from millgate import Millgate
from millgate.evaluate.labeled import sample, sets

TURNS = Path(__file__).parents[1] / "tests" / "promises" / "turns.txt"


def main():
    parser = argparse.ArgumentParser(
        description="How often context is added unasked, and what a question keeps."
    )
    parser.add_argument("folder", type=Path, help="a folder of labeled sets")
    parser.add_argument(
        "--turns", type=Path, default=TURNS, help="messages that want nothing, one a line"
    )
    parser.add_argument("--questions", type=int, default=60, help="questions of each set")
    given = parser.parse_args()
    turns = [line for line in given.turns.read_text("utf-8").splitlines() if line.strip()]
    print("set            added to turns   evidence   of it unasked")
    totals = []
    for labeled in sets(given.folder):
        row = measure(sample(labeled, given.questions), turns)
        totals.append(row)
        print_row(labeled.name, row)
    print_row("mean", [sum(column) / len(totals) for column in zip(*totals, strict=True)])


def measure(labeled, turns):
    """The share of the turns that get something, the evidence found, and the evidence that is added unasked."""
    with Millgate.open(":memory:") as gate:
        gate.add(labeled.rows)
        largest = Counter(row["collection"] for row in labeled.rows).most_common(1)[0][0]
        added = sum(gate.context(turn, collection=largest).is_worth_adding for turn in turns)
        found = kept = 0.0
        for query in labeled.queries:
            context = gate.context(query["text"], collection=query["collection"])
            wanted = set(labeled.labels[query["_id"]])
            evidence = len(wanted & {chunk.document or chunk.id for chunk in context.chunks}) / len(
                wanted
            )
            found += evidence
            kept += evidence * context.is_worth_adding
    count = len(labeled.queries)
    return added / len(turns), found / count, kept / count


def print_row(name, row):
    added, found, kept = row
    print(f"{name:14} {added:14.3f} {found:10.3f} {kept / found if found else 1:15.3f}", flush=True)


if __name__ == "__main__":
    main()
