"""Top: the best of an array of scores without sorting it.

The array is read as 32 rows; the maxima of its columns give a floor under the k-th best: at least k scores reach the
k-th largest. Only what reaches the floor, in columns that do, is sorted. Ties are broken by reading order,
so the answer does not depend on how chunks are numbered.
A chunk that retrieval ranked low may be lifted by propagation, so the scores of all travel with the best.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from millgate.protocols import Postings, Snapshot
from millgate.rank.lexical import Floats, Ints
from millgate.types import Chunk, Sifted

SEEDS = 64  # more than any propagation starts from
_ROWS = 32
_TINY = np.nextafter(0.0, 1.0)


class ReadingOrder(Protocol):
    """What breaks ties: a number per chunk that grows in reading order. Every snapshot has it."""

    def reading_order_key(self, ords: Ints) -> Ints:  # noqa: D102  (see the class)
        ...


def top(scores: Floats, k: int, view: ReadingOrder, *, some: Ints | None = None) -> Ints:
    """Ordinals of the k best positive scores, best first.

    `some` are different ordinals that are expected to score well: the k-th best of them is a floor found sooner.
    """
    if k <= 0 or not len(scores):
        return np.zeros(0, np.int64)
    if some is not None and len(some) >= k:
        floor = max(float(np.partition(scores[some], -k)[-k]), _TINY)
        found = np.flatnonzero(scores >= floor)
    else:
        found = _candidates(scores, k)
    return found[best(scores[found], k, found, view)]


def best(scores: Floats, k: int, ords: Ints, view: ReadingOrder) -> Ints:
    """Indices of the k highest scores, highest first; `ords` are the scored chunks. Ties stand in reading order."""
    index = np.arange(len(scores))
    if len(scores) > k:  # all that tie with the k-th stay in for now
        index = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    order = index[np.argsort(-scores[index], kind="stable")]
    ranked = scores[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = order[np.lexsort((view.reading_order_key(ords[order]), -ranked))]
    return order[:k]


def _candidates(scores: Floats, k: int) -> Ints:
    """Ordinals, ascending, among which the k best positive scores are."""
    width = len(scores) // _ROWS
    if width <= k:
        return np.flatnonzero(scores >= _TINY)
    body, rest = scores[: width * _ROWS].reshape(_ROWS, width), scores[width * _ROWS :]
    peaks = body.max(0)
    floor = max(float(np.partition(peaks, -k)[-k]), _TINY)
    columns = np.flatnonzero(peaks >= floor)
    rows, which = np.nonzero(body[:, columns] >= floor)
    return np.append(rows * width + columns[which], np.flatnonzero(rest >= floor) + body.size)


@dataclass(frozen=True, slots=True)
class RankingScores:
    """What retrieval found, as arrays: every chunk's score, the seeds of propagation, and the query's postings."""

    every: Floats
    seeds: Ints
    strength: Floats
    kept: Ints  # the candidates' ordinals, in their order; below 0 if unknown
    ranked: int = 0  # how many of `kept` are the best of all, best first
    hits: Postings | None = None


@dataclass(frozen=True, slots=True)
class Found(Sifted):
    """What retrieval found, with its scores."""

    scores: RankingScores | None = field(default=None, compare=False, repr=False)


def read_chunks(view: Snapshot, ords: Ints) -> dict[int, Chunk]:
    """The chunks behind some ordinals; one may be gone by now."""
    if not len(ords):
        return {}
    ids = view.ids(ords)
    chunks = {chunk.id: chunk for chunk in view.read(ids)}
    return {o: chunks[id] for o, id in zip(ords.tolist(), ids, strict=True) if id in chunks}


def scores_of(found: Sifted, view: Snapshot) -> RankingScores:
    """The scores behind what was found, made from the candidates if retrieval did not hand them on."""
    if isinstance(found, Found) and found.scores is not None:
        return found.scores
    ords = view.find([c.chunk.id for c in found.kept])
    there = ords >= 0
    every = np.zeros(view.size)
    every[ords[there]] = np.array([c.score for c in found.kept], float)[there]
    seeds = top(every, SEEDS, view)
    return RankingScores(
        every, seeds, every[seeds], np.where(there, ords, -1 - np.arange(len(ords)))
    )
