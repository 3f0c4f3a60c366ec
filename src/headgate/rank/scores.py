"""Scores: the numbers behind what retrieval found.

A chunk that retrieval ranked low may be lifted by propagation, so the scores of everything that was looked
at travel with the best of it.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headgate.protocols import Hits, Postings
from headgate.rank.top import top
from headgate.types import Sifted

SEEDS = 64  # more than any propagation starts from


@dataclass(frozen=True, slots=True)
class Scores:
    """The score of every ordinal, the best of the first pass, where propagation starts, and the query's postings."""

    every: npt.NDArray[np.float64]
    seeds: npt.NDArray[np.int64]
    strength: npt.NDArray[np.float64]
    kept: npt.NDArray[np.int64]  # the candidates' ordinals, in their order; below 0 where unknown
    ranked: int = 0  # how many of `kept` are the best of all, best first
    hits: Hits | None = None


@dataclass(frozen=True, slots=True)
class Found(Sifted):
    """What retrieval found, with its scores."""

    scores: Scores | None = field(default=None, compare=False, repr=False)


def scores_of(found: Sifted, view: Postings) -> Scores:
    """The scores behind what was found, made from the candidates where retrieval did not hand them on."""
    if isinstance(found, Found) and found.scores is not None:
        return found.scores
    ords = view.find([c.chunk.id for c in found.kept])
    there = ords >= 0
    every = np.zeros(view.size)
    every[ords[there]] = np.array([c.score for c in found.kept], float)[there]
    seeds = top(every, SEEDS, view.reading)
    return Scores(every, seeds, every[seeds], np.where(there, ords, -1 - np.arange(len(ords))))
