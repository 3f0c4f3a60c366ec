"""Fits the constants of the built-in grader on labeled sets, and judges each set by constants fitted without it.

    make bench-fit_grade ARGS="DIR ..."      15 minutes for 19 sets; DIR is a labeled set or a folder of them

Each question is asked in its own set and in others, through retrieve, propagate and gate as they ship. Prints the
constants for src/headgate/relevance/confidence.py; for each set, judged by constants fitted without it, the share of
its questions that would come back empty and of foreign ones that would be stopped; the curve of both; and the
reliability.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from headgate.evaluate.calibrate import Fitted, ask_ungraded, fit, fit_without
from headgate.evaluate.labeled import sample, sets
from headgate.evaluate.stored_set import StoredSet
from headgate.relevance.confidence import KNOWS, LOWER

QUESTIONS, FOREIGN = 120, 72  # of a set, and of the other sets in it
LEVELS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3)
BANDS = np.arange(0, 1, 0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    folders = parser.parse_args().folders
    everyone = [sample(one, QUESTIONS) for folder in folders for one in sets(folder)]
    asked = []
    for one in everyone:
        with StoredSet(one) as stored:
            found = ask_ungraded(stored, budgets=[1000], others=everyone, most_foreign=FOREIGN)
        asked += found.asked
        print(f"asked {one.name}", file=sys.stderr)
    fitted, names = fit(asked), [one.name for one in everyone]
    print(f"KNOWS = {fitted.weights}\nLOWER = {fitted.lower:.3f}")
    held_out = {name: fit_without(name, asked) for name in names}
    shipped = Fitted(KNOWS, LOWER)
    print(f"\n{'':16}{'empty':>8}{'stopped':>9}   (shipped: empty, stopped)")
    rows = [(*shares(asked, n, held_out[n]), *shares(asked, n, shipped)) for n in names]
    for name, row in zip([*names, "mean"], [*rows, np.mean(rows, 0)], strict=True):
        print(f"{name:16}{row[0]:8.3f}{row[1]:9.3f}{row[2]:12.3f}{row[3]:9.3f}")
    print("\nthe curve, each set judged by the others: lower, empty (the worst set), stopped")
    for level in LEVELS:
        found = [shares(asked, n, Fitted(held_out[n].weights, level)) for n in names]
        empty, stopped = zip(*found, strict=True)
        print(f"{level:6.2f} {np.mean(empty):8.4f} ({max(empty):.3f}) {np.mean(stopped):8.3f}")
    reliability(asked, held_out)


def shares(asked, name, fitted):
    """Of a set: the share of its own questions that come back empty, and of foreign ones."""
    mine = [one for one in asked if one.set == name]
    own = [fitted.refuses(one) for one in mine if one.answerable]
    away = [fitted.refuses(one) for one in mine if not one.answerable]
    return np.mean(own), np.mean(away) if away else np.nan


def reliability(asked, held_out):
    print(
        "\nconfidence of the best chunk, share asked in the right set (both kinds weigh the same), questions"
    )
    rows = [(held_out[a.set].confidence(a.features), a.answerable) for a in asked if a.features]
    marks, right = np.array([m for m, _ in rows]), np.array([r for _, r in rows])
    for low in BANDS:
        inside = (marks >= low) & (marks < low + 0.1 + (low > 0.85))
        own, away = (inside & right).sum() / right.sum(), (inside & ~right).sum() / (~right).sum()
        print(f"{low:.1f}-{low + 0.1:.1f}  {own / max(own + away, 1e-9):.2f}  {inside.sum()}")


if __name__ == "__main__":
    main()
