"""Orders: how much labeled evidence a budget holds, by the order it is filled in: `make bench-orders DATA=DIR`.

The ranking as it ships, filled by the gate's value (the first that does not fit as its best strips, as the engine
does), by that without strips, without entropy, by the score alone, by the published entropy score, and at random (mean
of five draws); counted and framed alike.
"""

import random
import sys
from pathlib import Path

import numpy as np

from headgate.evaluate.labeled import sets
from headgate.evaluate.retrieval import BUDGETS
from headgate.gateway import Headgate
from headgate.relevance.excerpt import excerpt
from headgate.relevance.query_terms import ask
from headgate.stages.gate import GatePolicy, gate
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.text.tokens import estimate_tokens
from headgate.types import Candidate

DRAWS = 5
PLAIN = GatePolicy(entropy_weight=0.0, length_power=0.0)
DULL = GatePolicy(entropy_weight=0.0)


def found(kept, labels):
    return len(labels.keys() & {c.chunk.document for c in kept}) / len(labels)


def ways(ranking, text, view, budget, labels):
    """Name of the order -> share of the evidence inside the budget."""
    question = ask(text, view)

    def strips(chunk, fits):
        return excerpt(chunk.text, question, view.language, fits)

    def fill(candidates, policy, cut=None):
        talk = view.conversational
        sifted = gate(candidates, budget, estimate_tokens, policy, excerpt=cut, conversation=talk)
        return found(sifted.kept, labels)

    def shuffled(seed):
        dice = random.Random(seed)
        return [Candidate(c.chunk, dice.random()) for c in ranking]

    return {
        "value": fill(ranking, GatePolicy(), strips),
        "value without strips": fill(ranking, GatePolicy()),
        "value without entropy": fill(ranking, DULL, strips),
        "score": fill(ranking, PLAIN),
        "entropy, as published": fill(ranking, GatePolicy(order="entropy")),
        "random": np.mean([fill(shuffled(seed), PLAIN) for seed in range(DRAWS)]),
    }


def main(folder):
    for labeled in sets(Path(folder)):
        figures = {}
        with Headgate.open(":memory:") as hg:
            hg.add(labeled.rows)
            for query in labeled.queries:
                text = query["text"]
                view = hg.index(query.get("collection", "main"))
                wired = retrieve(text, view, RetrievePolicy())
                ranking = propagate(wired, text, view, PropagatePolicy()).kept
                for budget in BUDGETS:
                    labels = labeled.labels[query["_id"]]
                    for name, share in ways(ranking, text, view, budget, labels).items():
                        figures.setdefault(name, {}).setdefault(budget, []).append(share)
        print(f"\n{labeled.name}: evidence within {', '.join(map(str, BUDGETS))} tokens")
        for name, by in figures.items():
            print(f"  {name:24}" + " ".join(f"{np.mean(by[b]):.3f}" for b in BUDGETS))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python bench/orders.py DIR (a folder of labeled sets)")
    main(sys.argv[1])
