"""Arrays: the best of an array of scores without sorting it, and sets of keys.

The array is read as 32 rows; the maxima of its columns give a floor under the k-th best: at least k scores reach the
k-th largest. Only what reaches the floor, in columns that do, is sorted. Ties are broken by reading order,
so the answer does not depend on how chunks are numbered.
"""

from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Number = TypeVar("Number", bound=np.integer)

_ROWS = 32
_TINY = np.nextafter(0.0, 1.0)


class ReadingOrder(Protocol):
    """What breaks ties: a number per chunk that grows in reading order. Every snapshot has it."""

    def reading_order_key(self, ords: Ints) -> Ints:  # noqa: D102  (see the class)
        ...


def top(scores: Floats, k: int, view: ReadingOrder) -> Ints:
    """Ordinals of the k best positive scores, best first."""
    if k <= 0 or not len(scores):
        return np.zeros(0, np.int64)
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


def distinct(keys: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The keys, sorted, each once. A sort and a mask are faster than np.unique, which also loads numpy.ma."""
    keys = np.sort(keys)
    return keys[firsts(keys)]


def number_keys(keys: npt.NDArray[Number]) -> tuple[npt.NDArray[Number], Ints]:
    """The same, and which of them each key is."""
    order = keys.argsort()
    ranked = keys[order]
    first = firsts(ranked)
    slots = np.empty(len(keys), np.int64)
    slots[order] = first.cumsum() - 1
    return ranked[first], slots


def firsts(ranked: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Which of some sorted keys differ from the one before."""
    first = np.ones(len(ranked), bool)
    np.not_equal(ranked[1:], ranked[:-1], out=first[1:])
    return first


def locate(
    keys: npt.NDArray[Number], found: npt.NDArray[Number]
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """For each of `found`, which of `keys` it is, and whether it is one of them."""
    order = keys.argsort()
    slots = order[np.minimum(keys[order].searchsorted(found), len(keys) - 1)]
    return slots, keys[slots] == found


def sum_at(slots: Ints, values: npt.NDArray[np.floating], size: int) -> Floats:
    """The sum of the values at each slot."""
    return np.asarray(np.bincount(slots, values, minlength=size), np.float64)
