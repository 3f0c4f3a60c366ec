"""Retrieval on labeled sets, measured in ways that only say something of this project.

    make bench-retrieval ARGS="held-out DIR ... --sample 60"     weights that were fitted on the other sets
    make bench-retrieval ARGS="published DIR ... --sample 40"    the published gating pipeline beside ours

`held-out` prints the figures of `millgate eval retrieval`, each set judged by a model of relevance fitted without it,
and how often chunks are evidence that say they are. `published` prints the share of the evidence in a budget: of BM25,
of the published pipeline, of a random order of its candidates, and of ours.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from bench.curve import truth_of
from bench.fixtures.published_gating import PublishedGating

from millgate.cli.evaluate import describe_figures
from millgate.evaluate import fit
from millgate.evaluate.labeled import Labeled, StoredSet, collection_of, sample, sets
from millgate.evaluate.retrieval import (
    BANDS,
    BUDGETS,
    FOREIGN,
    Pair,
    Run,
    calibration_error,
    evaluate,
)
from millgate.evaluate.shown import measure, whole_pieces
from millgate.published.entropy_gating import estimate_tokens
from millgate.ranking.model import Model
from millgate.text.table import table
from millgate.types import Candidate


def held_out(every: Sequence[Labeled], budgets: Sequence[int], foreign: int) -> list[Run]:
    """Each set as it is judged by weights fitted on the others."""
    asked: list[fit.Asked] = []
    for one in every:
        with StoredSet(one) as stored:
            asked += fit.observe(stored, every, most_foreign=foreign)
    runs = []
    with TemporaryDirectory(prefix="millgate-bench-") as folder:
        for number, one in enumerate(every):
            file = Path(folder, f"{number}.json")
            file.write_text(json.dumps(fit.as_data(fit_without(one.name, asked))))
            settings = {"grade": {"weights": str(file)}}
            with StoredSet(one) as stored:
                runs.append(
                    evaluate(stored, settings=settings, budgets=budgets, others=every, most_foreign=foreign)
                )  # fmt: skip
    return runs


def fit_without(name: str, asked: Sequence[fit.Asked]) -> Model:
    """The weights fitted without a set: neither its texts nor its questions."""
    return fit.fit([one for one in asked if name not in {one.set, one.source}])


def bands(groups: Sequence[Sequence[Pair]]) -> str:
    """What the confidences say beside what is true, in bands of equal width; each set weighs the same."""
    sums = np.zeros((BANDS, 3))
    filled = [pairs for pairs in groups if pairs]
    for pairs in filled:
        for said, true in pairs:
            sums[min(int(said * BANDS), BANDS - 1)] += np.array([1, said, true]) / len(pairs)
    rows = [("confidence", "said", "evidence", "share of pairs")]
    for band, (weight, said, true) in enumerate(sums.tolist()):
        if weight:
            figures = (said / weight, true / weight, weight / len(filled))
            rows.append((f"{band / BANDS:.1f}-{(band + 1) / BANDS:.1f}", *(f"{f:.3f}" for f in figures)))  # fmt: skip
    return f"calibration error over all pairs: {calibration_error(groups):.3f}\n{table(rows)}"


def published(one: Labeled, budget: int) -> dict[str, float]:
    """The share of a set's evidence in a budget, by what fills it."""
    with StoredSet(one) as stored:
        run = evaluate(stored, budgets=[budget])
        found: dict[str, list[float]] = {"published": [], "random": []}
        with stored.open() as gate:
            pipelines = {name: PublishedGating(gate.index(name)) for name in one.collections}
            for query in one.queries:
                filled = pipelines[collection_of(query)].fill(query, gate, budget)
                for name, rows in zip(found, filled, strict=True):
                    pieces = whole_pieces(Candidate(row["chunk"], row["entropy"]) for row in rows)
                    sent = sum(estimate_tokens(row["content"]) for row in rows)
                    figures = measure(pieces, sent, truth_of(stored, query))
                    found[name].append(figures["context_evidence"])
    name = f"context_evidence@{budget}"
    return {
        "BM25": run.bm25.means()[name],
        **{who: float(np.mean(values)) for who, values in found.items()},
        "ours": run.ours.means()[name],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("held-out", "published"))
    parser.add_argument("folders", nargs="+", type=Path, help="labeled sets, or folders of them")
    parser.add_argument("--budget", type=int, action="append", help="tokens of a context")
    parser.add_argument("--sample", type=int, help="most questions of a set")
    parser.add_argument("--foreign", type=int, default=FOREIGN, help="questions from other sets")
    args = parser.parse_args()
    every = [sample(one, args.sample) for folder in args.folders for one in sets(folder)]
    if args.part == "held-out":
        if len(every) < fit.MIN_SETS:
            parser.error(f"weights are fitted on the other sets: give at least {fit.MIN_SETS}")
        runs = held_out(every, args.budget or BUDGETS, args.foreign)
        print(describe_figures({run.labeled.name: run.figures() for run in runs}))
        print(bands([run.pairs for run in runs]))
        return
    for budget in args.budget or (1000,):
        rows = {one.name: published(one, budget) for one in every}
        heads = list(next(iter(rows.values())))
        rows["mean"] = {
            head: float(np.mean([row[head] for row in rows.values()])) for head in heads
        }
        lines = [[name, *(f"{row[head]:.3f}" for head in heads)] for name, row in rows.items()]
        print(table([[f"at {budget} tokens", *heads], *lines]))


if __name__ == "__main__":
    main()
