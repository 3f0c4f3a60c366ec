"""Top: the best of an array of scores without sorting it.

The array is read as 32 rows; the maxima of its columns give a floor under the k-th best, since at least k scores reach
the k-th largest maximum. Only what reaches the floor, in columns that do, is sorted. Ties are broken by reading order,
so the answer does not depend on how chunks are numbered.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROWS = 32
_TINY = np.nextafter(0.0, 1.0)


def top(
    scores: Floats, k: int, reading: Callable[[Ints], Ints], *, some: Ints | None = None
) -> Ints:
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
    return found[best(scores[found], k, lambda index: reading(found[index]))]


def best(scores: Floats, k: int, reading: Callable[[Ints], Ints]) -> Ints:
    """Indices of the k highest scores, highest first, ties in reading order."""
    index = np.arange(len(scores))
    if len(scores) > k:  # all that tie with the k-th stay in for now
        index = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    order = index[np.argsort(-scores[index], kind="stable")]
    ranked = scores[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = order[np.lexsort((reading(order), -ranked))]
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
