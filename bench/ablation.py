"""What each part of retrieval is worth, by switching it off.

    make bench-ablation ARGS="DIR ... --sample 60 --foreign 40"

Each row is a difference to what ships, over the same questions, with its standard error: that of the mean over the
sets, whose questions are the sample.
"""

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from millgate.evaluate.labeled import Labeled, Settings, StoredSet, sample, sets
from millgate.evaluate.retrieval import FOREIGN, JUDGED, Figures, Run, Tally, evaluate
from millgate.text.table import table

FIGURES = ("ndcg", "context_evidence", "whole_evidence", "answers", "tokens", "empty", "stopped")
AS_SHIPPED = "as it ships"
BM25 = "plain BM25"
PARTS: Mapping[str, Settings] = {
    "feedback": {"retrieve": {"feedback": 0}},
    "heads": {"retrieve": {"head_weight": 0}},
    "phrases": {"retrieve": {"phrase": 0}},
    "names": {"propagate": {"weight": 0}},
    "propagate": {"propagate": {"mode": "off"}},
    "floor": {"grade": {"floor": 0.0}},
    "grade": {"grade": {"enabled": False}},
}
"""The parts that can be switched off, and the settings that do it."""


def compare(
    stored: StoredSet,
    parts: Iterable[str],
    *,
    budget: int,
    others: Sequence[Labeled] = (),
    most_foreign: int = 0,
) -> dict[str, Run]:
    """One set as it ships, and without each of the parts."""
    changes: dict[str, Settings] = {AS_SHIPPED: {}, **{name: PARTS[name] for name in parts}}
    # not counted: the first gate pays for what the process remembers of each text (CPU 17.3 instead of 14.5 ms)
    evaluate(stored, budgets=[budget])
    return {
        name: evaluate(
            stored,
            settings=change,
            budgets=[budget],
            others=others,
            most_foreign=most_foreign,
        )
        for name, change in changes.items()
    }


def differences(sets: Sequence[Mapping[str, Run]]) -> list[Figures]:
    """A row for each part: its name, by figure the mean difference over the sets and its standard error, and CPU ms."""
    rows = []
    for name in (AS_SHIPPED, BM25, *(part for part in sets[0] if part != AS_SHIPPED)):
        pairs = [(runs[AS_SHIPPED], runs[AS_SHIPPED if name == BM25 else name]) for runs in sets]
        tallies = [(a.ours, b.bm25 if name == BM25 else b.ours) for a, b in pairs]
        names = dict.fromkeys(figure for tally, _ in tallies for figure in tally.values)
        found = {
            figure: _difference(figure, tallies)
            for figure in names
            if figure.partition("@")[0] in FIGURES
        }
        row: Figures = {"without": name, **{k: v for k, v in found.items() if v}}
        if name != BM25:
            row["p50_ms"] = float(np.mean([1000 * np.median(b.seconds) for _, b in pairs]))
        rows.append(row)
    return rows


def _difference(figure: str, pairs: Sequence[tuple[Tally, Tally]]) -> dict[str, float] | None:
    """The mean of a figure over the sets that have it, how much it changes, and the standard error of the change."""
    found = [
        (np.array(shipped.values[figure]), np.array(other.values[figure]))
        for shipped, other in pairs
        if figure in shipped.values and figure in other.values
    ]
    if not found:
        return None
    errors = [
        (after - before).std(ddof=1) / math.sqrt(len(before)) if len(before) > 1 else 0.0
        for before, after in found
    ]
    value = float(np.mean([after.mean() for _, after in found]))
    shipped = float(np.mean([before.mean() for before, _ in found]))
    error = math.sqrt(sum(e * e for e in errors)) / len(errors)
    return {"value": value, "change": value - shipped, "error": error}


def main() -> None:
    """Print what ships, and a line for each part: the difference without it and its standard error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, help="labeled sets, or folders of them")
    parser.add_argument("--budget", type=int, default=JUDGED, help="tokens of a context")
    parser.add_argument("--sample", type=int, help="most questions of a set")
    parser.add_argument("--embedder", default="none")
    parser.add_argument("--foreign", type=int, default=FOREIGN, help="questions from other sets")
    parser.add_argument("--without", action="append", choices=list(PARTS), help="only these parts")
    args = parser.parse_args()
    every = [sample(one, args.sample) for folder in args.folders for one in sets(folder)]
    runs = []
    for one in every:
        with StoredSet(one, args.embedder) as stored:
            parts = args.without or list(PARTS)
            runs.append(
                compare(stored, parts, budget=args.budget, others=every, most_foreign=args.foreign)
            )
    rows = differences(runs)
    names = [name for name in rows[0] if name not in ("without", "p50_ms")]
    lines = [[f"at {args.budget} tokens, without", *names, "CPU ms p50"]]
    for row in rows:
        cells = [_cell(row.get(name), row["without"]) for name in names]
        lines.append([row["without"], *cells, f"{row.get('p50_ms', 0):.1f}"])
    print(table(lines))


def _cell(found: Mapping[str, float] | None, row: str) -> str:
    if found is None:
        return ""
    if row == AS_SHIPPED:
        return f"{found['value']:.3f}"
    return f"{found['change']:+.3f} ({found['error']:.3f})"


if __name__ == "__main__":
    main()
