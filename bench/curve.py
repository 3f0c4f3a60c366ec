"""How much evidence and how many answers arrive, for how many tokens really sent, as a floor or a cut rises.

    make bench-curve ARGS="DIR ... --sample 60"

Three rules leave out what is likely noise, each at several levels, in contexts of one budget:

    grade.floor   the gate's own floor, as users set it
    plain cut     what scores less than a share of the best chunk is left out of a context made without a floor; the
                  best always stays. The baseline that a floor must beat
    BM25 cut      the same cut in what BM25 fills the budget with
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from millgate.evaluate.labeled import Query, StoredSet, collection_of, sample, sets
from millgate.evaluate.retrieval import JUDGED, Figures, Tally
from millgate.evaluate.shown import (
    Piece,
    Truth,
    count_piece,
    fill_by_bm25,
    measure,
    pieces_of,
    rank_by_bm25,
)
from millgate.gateway import Millgate
from millgate.text.table import table

LEVELS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.5)  # shares of the best score
FLOORS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
FLOOR, PLAIN, BM25 = "grade.floor", "plain cut", "BM25 cut"

Point = tuple[str, float]
"""A rule and its level."""


def draw(stored: StoredSet, *, budget: int) -> dict[Point, Tally]:
    """The figures of each question of a set at each point; the first level is 0, where nothing is cut."""
    rules = {BM25: LEVELS, PLAIN: LEVELS, FLOOR: FLOORS}
    points: dict[Point, Tally] = {
        (rule, level): Tally() for rule, own in rules.items() for level in own
    }
    for floor in FLOORS:
        with stored.open({"grade": {"floor": floor}}) as gate:
            for query in stored.labeled.queries:
                truth, collection = truth_of(stored, query), collection_of(query)
                given = gate.context(query["text"], budget=budget, collection=collection)
                pieces, sent = pieces_of(given), given.token_estimate
                points[FLOOR, floor].add(measure(pieces, sent, truth))
                if not floor:
                    plain = rank_by_bm25(query["text"], gate.index(collection))
                    theirs, their_tokens = fill_by_bm25(plain, budget, gate.count_tokens)
                    for level in LEVELS:
                        points[PLAIN, level].add(_cut(pieces, sent, level, truth, gate))
                        points[BM25, level].add(_cut(theirs, their_tokens, level, truth, gate))
    return points


def _cut(
    pieces: Sequence[Piece], sent: int, share: float, truth: Truth, gate: Millgate
) -> dict[str, float]:
    """The figures of some pieces, of which `sent` tokens were sent, after the plain cut."""
    kept = cut_at_share(pieces, share)
    left_out = [piece for piece in pieces if piece not in kept]
    cut = sum(count_piece(piece.title, piece.text, gate.count_tokens) for piece in left_out)
    return measure(kept, sent - cut, truth)


def truth_of(stored: StoredSet, query: Query) -> Truth:
    """What the labels say about a query."""
    labeled, id = stored.labeled, query["_id"]
    return Truth(labeled.labels[id], labeled.answers.get(id, ()), stored.copies)


def cut_at_share(pieces: Sequence[Piece], share: float) -> list[Piece]:
    """The plain cut: the pieces whose score is at least this share of the best one's. The best always stays."""
    least = share * max((piece.score for piece in pieces), default=0.0)
    return [piece for piece in pieces if piece.score >= least]


def mean(sets: Sequence[Mapping[Point, Tally]]) -> list[Figures]:
    """The points with the mean of each figure over the sets that have it, and the tokens saved beside no cut."""
    found: dict[Point, Figures] = {}
    for point in sets[0]:
        overall = Tally()
        for points in sets:
            overall.add(points[point].means())
        found[point] = overall.means()
    for (rule, _), figures in found.items():
        if uncut := found[rule, 0.0]["tokens"]:
            figures["saved"] = 1 - figures["tokens"] / uncut
    return [{"rule": rule, "level": level, **found[rule, level]} for rule, level in found]


def main() -> None:
    """Print a line for each level of each rule."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, help="labeled sets, or folders of them")
    parser.add_argument("--budget", type=int, default=JUDGED, help="tokens of a context")
    parser.add_argument("--sample", type=int, help="most questions of a set")
    parser.add_argument("--embedder", default="none")
    args = parser.parse_args()
    points = []
    for one in (sample(one, args.sample) for folder in args.folders for one in sets(folder)):
        with StoredSet(one, args.embedder) as stored:
            points.append(draw(stored, budget=args.budget))
    rows = mean(points)
    names = ["context_evidence", "whole_evidence", "answers", "tokens", "saved", "empty"]
    names = [name for name in names if name in rows[0]]
    lines = [[f"at {args.budget} tokens", "level", *names]]
    lines += [
        [row["rule"], f"{row['level']:g}", *(f"{row[name]:.3f}" for name in names)] for row in rows
    ]
    print(table(lines))


if __name__ == "__main__":
    main()
