"""What each part of the ranking and of the packing is worth, on labeled sets: one part switched off at a time.

    make bench-ablation ARGS="DIR ..."                                      ranking: nDCG@10
    make bench-ablation ARGS="DIR ... --packing"                            order of filling: evidence in the budget
    make bench-ablation ARGS="DIR ... --embedder static [--chunks 500]"     contexts without and with vectors

DIR is a labeled set or a folder of them. At most 60 questions of a set are asked (--questions), the same in every run.
Ranking prints differences to the ranking as it ships. Packing fills 500, 1 000, 2 000 and 4 096 tokens with the same
ranking in several orders, counted and framed in the same way. --embedder prints the share of the evidence in contexts
of 1 000 tokens and nDCG@10; --chunks takes that many passages of each set, for encoders that are slow.
Takes about five minutes for 19 sets, each kind.
"""

import argparse
import random
from dataclasses import replace
from pathlib import Path

import numpy as np

from headgate.evaluate.labeled import sample, sets
from headgate.evaluate.retrieval import BUDGETS, _rank_figures, evaluate
from headgate.gateway import Headgate
from headgate.relevance.excerpt import excerpt
from headgate.relevance.query_terms import ask
from headgate.stages.gate import GatePolicy, gate
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.text.tokens import estimate_tokens
from headgate.types import Candidate

BUDGET = 1000
DRAWS = 5
EQUAL = 0.0005  # a difference that rounds to nothing
RANKINGS = {
    "as it ships": (RetrievePolicy(), PropagatePolicy()),
    "BM25": (RetrievePolicy(mode="rrf"), PropagatePolicy(mode="off")),
    "no feedback": (RetrievePolicy(feedback=0), PropagatePolicy()),
    "feedback always": (RetrievePolicy(feedback_agreement=0), PropagatePolicy()),
    "no heads": (RetrievePolicy(head_weight=0), PropagatePolicy()),
    "heads twice": (RetrievePolicy(head_weight=1, lead=12), PropagatePolicy()),
    "no phrases": (RetrievePolicy(phrase=0), PropagatePolicy()),
    "no names": (RetrievePolicy(), PropagatePolicy(weight=0)),
}
BY_SCORE = GatePolicy(entropy_weight=0.0, length_power=0.0)
WITHOUT_ENTROPY = GatePolicy(entropy_weight=0.0)


# Ranking


def measure_ranking(labeled):
    found = {name: [] for name in RANKINGS}
    with Headgate.open(":memory:") as hg:
        hg.add(labeled.rows)
        for query in labeled.queries:
            view, labels = hg.index(query.get("collection", "main")), labeled.labels[query["_id"]]
            for name, (by_words, by_names) in RANKINGS.items():
                first = retrieve(query["text"], view, by_words)
                ranking = propagate(first, query["text"], view, by_names).kept
                found[name].append(_rank_figures(ranking, labels)["ndcg@10"])
    return [float(np.mean(values)) for values in found.values()]


def compare_rankings(chosen):
    print(f"{'':16}" + "".join(f"{name:>17}" for name in RANKINGS))
    table = []
    for labeled in chosen:
        table.append(measure_ranking(labeled))
        show_ranking(labeled.name, table[-1])
    show_ranking("mean", np.mean(table, 0))


def show_ranking(name, row):
    differences = "".join(f"{value - row[0]:+17.3f}" for value in row[1:])
    print(f"{name:16}{row[0]:17.3f}{differences}", flush=True)


# Packing


def fill_in_orders(ranking, text, view, budget, labels):
    """Name of the order -> share of the evidence inside the budget."""
    question = ask(text, view)

    def strips(chunk, fits):
        return excerpt(chunk.text, question, view.language, fits)

    def fill(candidates, policy, cut=None):
        talk = view.conversational
        sifted = gate(candidates, budget, estimate_tokens, policy, excerpt=cut, conversation=talk)
        return len(labels.keys() & {c.chunk.document for c in sifted.kept}) / len(labels)

    def shuffled(seed):
        dice = random.Random(seed)
        return [Candidate(c.chunk, dice.random()) for c in ranking]

    return {
        "value": fill(ranking, GatePolicy(), strips),
        "value without strips": fill(ranking, GatePolicy()),
        "value without entropy": fill(ranking, WITHOUT_ENTROPY, strips),
        "score": fill(ranking, BY_SCORE),
        "entropy, as published": fill(ranking, GatePolicy(order="entropy")),
        "random, mean of five": np.mean([fill(shuffled(seed), BY_SCORE) for seed in range(DRAWS)]),
    }


def compare_packing(chosen):
    for labeled in chosen:
        figures = {}
        with Headgate.open(":memory:") as hg:
            hg.add(labeled.rows)
            for query in labeled.queries:
                text = query["text"]
                view = hg.index(query.get("collection", "main"))
                first = retrieve(text, view, RetrievePolicy())
                ranking = propagate(first, text, view, PropagatePolicy()).kept
                labels = labeled.labels[query["_id"]]
                for budget in BUDGETS:
                    filled = fill_in_orders(ranking, text, view, budget, labels)
                    for name, share in filled.items():
                        figures.setdefault(name, {}).setdefault(budget, []).append(share)
        print(f"\n{labeled.name}: evidence within {', '.join(map(str, BUDGETS))} tokens")
        for name, by in figures.items():
            print(f"  {name:24}" + " ".join(f"{np.mean(by[b]):.3f}" for b in BUDGETS), flush=True)


# Vectors


def shrink(labeled, most):
    """The set cut down to `most` passages: those that are labeled, then others by chance."""
    if most is None or most >= len(labeled.rows):
        return labeled
    asked = {query.get("collection", "main") for query in labeled.queries}
    needed = {passage for query in labeled.queries for passage in labeled.labels[query["_id"]]}
    others = [r["id"] for r in labeled.rows if r["collection"] in asked and r["id"] not in needed]
    count = min(max(0, most - len(needed)), len(others))
    kept = needed | set(random.Random(labeled.name).sample(others, count))
    return replace(labeled, rows=[row for row in labeled.rows if row["id"] in kept])


def measure_contexts(labeled, embedder):
    found = evaluate(labeled, embedder=embedder, budgets=[BUDGET]).ours.means()
    return found[f"context_evidence@{BUDGET}"], found["ndcg@10"], found[f"empty@{BUDGET}"]


def compare_embedder(chosen, embedder, most):
    print(f"{'':16}  chunks  questions  without  with          nDCG@10         empty", flush=True)
    table = {}
    for one in chosen:
        labeled = shrink(one, most)
        table[one.name] = [
            *measure_contexts(labeled, "none"),
            *measure_contexts(labeled, embedder),
        ]
        sizes = f"{len(labeled.rows):8}{len(labeled.queries):11}"
        show_contexts(one.name, table[one.name], sizes)
    show_contexts("mean", np.mean([*table.values()], 0), " " * 19)
    change = {name: row[3] - row[0] for name, row in table.items()}
    gain = [name for name, by in change.items() if by > EQUAL]
    lose = [f"{name} {by:.3f}" for name, by in change.items() if by < -EQUAL]
    same = len(change) - len(gain) - len(lose)
    print(f"{len(gain)} sets gain, {same} stay equal, {len(lose)} lose: {', '.join(lose)}")


def show_contexts(name, row, sizes):
    shown, order, empty, with_shown, with_order, with_empty = row
    print(
        f"{name:16}{sizes}{shown:9.3f}{with_shown:7.3f} ({with_shown - shown:+.3f})"
        f"{order:8.3f}{with_order:7.3f}{empty:8.3f}{with_empty:6.3f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--packing", action="store_true")
    parser.add_argument("--embedder", help="static, minilm, a folder or a URL")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--chunks", type=int)
    given = parser.parse_args()
    read = (one for folder in given.folders for one in sets(Path(folder)))
    chosen = (sample(one, given.questions) for one in read)
    if given.packing:
        compare_packing(chosen)
    elif given.embedder:
        compare_embedder(chosen, given.embedder, given.chunks)
    else:
        compare_rankings(chosen)


if __name__ == "__main__":
    main()
