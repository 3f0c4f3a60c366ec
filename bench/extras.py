"""What each extra of the ranking gains: make bench-extras DATA="DIR ..."

nDCG@10 of plain BM25, and of the ranking with one extra switched off, or asked for no sign that it helps; differences
to the ranking as it ships, set by set and in the mean. At most 60 questions of a set are asked, the same in every run.
"""

import sys
from pathlib import Path

import numpy as np

from headgate.evaluate.labeled import sample, sets
from headgate.evaluate.retrieval import _figures
from headgate.gateway import Headgate
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve

QUESTIONS = 60
WAYS = {
    "as it ships": (RetrievePolicy(), PropagatePolicy()),
    "BM25": (RetrievePolicy(mode="rrf"), PropagatePolicy(mode="off")),
    "no feedback": (RetrievePolicy(feedback=0), PropagatePolicy()),
    "feedback always": (RetrievePolicy(feedback_agreement=0), PropagatePolicy()),
    "no heads": (RetrievePolicy(head_weight=0), PropagatePolicy()),
    "heads twice": (RetrievePolicy(head_weight=1, lead=12), PropagatePolicy()),
    "no phrases": (RetrievePolicy(phrase=0), PropagatePolicy()),
    "no names": (RetrievePolicy(), PropagatePolicy(weight=0)),
}


def measure(labeled):
    found = {name: [] for name in WAYS}
    with Headgate.open(":memory:") as hg:
        hg.add(labeled.rows)
        for query in labeled.queries:
            view, labels = hg.index(query.get("collection", "main")), labeled.labels[query["_id"]]
            for name, (by_words, by_names) in WAYS.items():
                first = retrieve(query["text"], view, by_words)
                ranking = propagate(first, query["text"], view, by_names).kept
                found[name].append(_figures(ranking, labels, (), talk=False)["ndcg@10"])
    return [float(np.mean(values)) for values in found.values()]


def main(*folders):
    print(f"{'':16}" + "".join(f"{name:>17}" for name in WAYS))
    table = []
    for labeled in (sample(one, QUESTIONS) for f in folders for one in sets(Path(f))):
        table.append(measure(labeled))
        show(labeled.name, table[-1])
    show("mean", np.mean(table, 0))


def show(name, row):
    print(
        f"{name:16}{row[0]:17.3f}" + "".join(f"{value - row[0]:+17.3f}" for value in row[1:]),
        flush=True,
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python bench/extras.py DIR... (labeled sets, or folders of them)")
    main(*sys.argv[1:])
