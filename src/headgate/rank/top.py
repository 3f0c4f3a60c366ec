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


def top(scores: Floats, k: int, reading: Callable[[Ints], Ints]) -> Ints:
    """Ordinals of the k best positive scores, best first."""
    if k <= 0 or not len(scores):
        return np.zeros(0, np.int64)
    found = np.flatnonzero(scores >= max(_floor(scores, k), np.nextafter(0.0, 1.0)))
    if len(found) > 4 * k:  # many ties at the floor, or a small array: keep what can be among the k
        values = scores[found]
        found = found[values >= np.partition(values, -k)[-k]]
    return found[best(scores[found], reading(found))[:k]]


def best(scores: Floats, reading: Ints) -> Ints:
    """The order that puts the highest score first, ties in reading order."""
    return np.lexsort((reading, -scores))


def _floor(scores: Floats, k: int) -> float:
    blocks = len(scores) // _BLOCK
    if blocks <= k:
        return 0.0
    peaks = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(1)
    return float(np.partition(peaks, -k)[-k])
