"""Budget search: with which budgets a chunk should fit, foreseen for all of them at once.

Packing skips what does not fit and goes on, so a larger budget may let a large piece in that pushes a small one out:
the budgets that admit a chunk are not one run but several. Here the packing is played through for every budget in
one sweep over the ranking. What it foresees is a guess (framing, shares and later stages are left aside) and is
believed only after a run.
"""

import numpy as np

from headgate.notes import NoteCode, Stage
from headgate.protocols import TokenCounter
from headgate.text.fence import fence_cost, piece
from headgate.types import Candidate, Trace

# what the gate notes on candidates that it ranked
RANKED = frozenset({NoteCode.FITS, NoteCode.NO_ROOM, NoteCode.BEYOND_K})


def likely_budgets(trace: Trace, chunk: str, count: TokenCounter, *, most: int) -> list[int]:
    """Budgets above the request's and up to `most` that begin a run of admitting ones, smallest first."""
    ranked = sorted(filter(_is_ranked, trace.candidates), key=lambda c: -_value(c))
    names = [candidate.chunk.id for candidate in ranked]
    if chunk not in names:
        return []
    budgets = np.arange(trace.request.budget + 1, most + 1)
    left = budgets - fence_cost(count)
    places = np.full(len(budgets), len(ranked) if trace.request.k is None else trace.request.k)
    fits = np.zeros(len(budgets), bool)
    for candidate in ranked[: names.index(chunk) + 1]:
        cost = count(piece(1, candidate.chunk.title, candidate.chunk.text) + "\n")
        fits = (left >= cost) & (places > 0)
        left = left - cost * fits
        places = places - fits
    begins = fits & ~np.concatenate(([False], fits[:-1]))
    return [int(budget) for budget in budgets[begins]]


def _is_ranked(candidate: Candidate) -> bool:
    return any(n.stage is Stage.GATE and n.code in RANKED for n in candidate.notes)


def _value(candidate: Candidate) -> float:
    return candidate.number(Stage.GATE, "value") or 0.0
