"""Query share: how much of a query's weight chunks hold, leave open, or hold beyond better ones."""

import numpy as np
import numpy.typing as npt

from millgate.protocols import Postings
from millgate.rank.lexical import Floats, Ints, within

# The share of the query's weight from which more that is new counts no more. Without this bound multi-hop questions
# lose .010 of their evidence; without the whole rule, .007.
MOST_NOVEL = 0.3


def open_share(hits: Postings, term_weight: Floats, chunk: int) -> float:
    """The share of the query's weight that one chunk does not hold."""
    total = float(term_weight.sum())
    held = _term_matrix(hits, np.arange(len(hits.counts)), np.array([chunk]))[:, 0]
    return 1.0 - float(term_weight[held].sum()) / total if total else 1.0


def novelty_shares(
    hits: Postings, term_weight: Floats, ranked: Ints, *, weight: float = 1.0
) -> Floats:
    """For each of some ranked chunks, the share of the query's weight that it holds and the best above it do not,
    weighted.
    """
    known = np.flatnonzero(hits.counts)
    held = _term_matrix(hits, known, ranked)
    above = np.logical_or.accumulate(held, axis=1)
    covered = np.zeros_like(held)
    covered[:, 1:] = above[:, :-1]
    share = term_weight[known] @ (held & ~covered) / (float(term_weight.sum()) or 1.0)
    return np.asarray(weight * np.minimum(share, MOST_NOVEL), np.float64)


def receptivity(
    hits: Postings, term_weight: Floats, seeds: Ints, ords: Ints, *, least: float
) -> Floats:
    """Least + the share of the query's weight that a seed leaves open and a chunk holds, for every seed and chunk.

    The last row is for mass that no seed gave, for which the whole query is open.
    """
    known = np.flatnonzero(hits.counts)
    weights = term_weight[known]
    total, first = float(weights.sum()) or 1.0, len(seeds)
    held = _term_matrix(hits, known, np.concatenate([seeds, ords]))
    lacks = weights * np.vstack([~held[:, :first].T, np.ones((1, len(known)), bool)])
    return np.asarray(least + lacks @ held[:, first:] / total, np.float64)


def _term_matrix(hits: Postings, known: Ints, asked: Ints) -> npt.NDArray[np.bool_]:
    """Which of some chunks hold which of some terms (term × chunk)."""
    ends = np.cumsum(hits.counts)
    held = np.zeros((len(known), len(asked)), bool)
    for row, term in zip(held, known.tolist(), strict=True):
        row[:] = within(hits.ords[ends[term] - hits.counts[term] : ends[term]], asked)
    return held
