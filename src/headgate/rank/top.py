"""Top: the best of an array of scores without sorting it.

Block maxima give a floor under the k-th best: at least k scores reach the k-th largest block maximum.
Only what reaches the floor is sorted. Ties are broken by reading order, so the answer does not depend on
how chunks are numbered.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BLOCK = 256
_TINY = np.nextafter(0.0, 1.0)


def top(scores: Floats, k: int, reading: Callable[[Ints], Ints]) -> Ints:
    """Ordinals of the k best positive scores, best first."""
    if k <= 0 or not len(scores):
        return np.zeros(0, np.int64)
    found = np.flatnonzero(scores >= max(_floor(scores, k), _TINY))
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


def _floor(scores: Floats, k: int) -> float:
    blocks = len(scores) // _BLOCK
    if blocks <= k:
        return 0.0
    peaks = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(1)
    return float(np.partition(peaks, -k)[-k])
