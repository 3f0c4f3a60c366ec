"""Candidates: which chunks of a large collection are worth ranking for a query.

The database hands over lists of postings, one run a term or name, with the numbers of the blocks they come from. A
chunk's place is its block's number and its own in it. All lists are joined, each posting has a value, and the values of
one place are added up. Runs come sorted, so one stable sort merges them.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from headgate.index.arrays import Ints, Keys
from headgate.index.blocks import signed
from headgate.protocols import BLOCK_BITS, KeyLists
from headgate.rank.fields import table
from headgate.rank.lexical import rarity

_MOST = 200_000  # counts that are remembered
_PAIR = 4  # bytes of a posting: its number in the block and its value, 16 bits each

Floats = npt.NDArray[np.float64]
Value = Callable[[KeyLists, npt.NDArray[np.uint16]], Floats]
Look = Callable[[Sequence[int]], Mapping[int, int]]


def best_places(lists: Sequence[KeyLists], value: Value, most: int) -> Ints:
    """The places with the highest sums of their postings' values, ascending."""
    places, values = [np.zeros(0, np.int64)], [np.zeros(0)]
    for found in lists:
        if found.lists is None or found.blocks is None or found.sizes is None:
            continue
        pairs = np.frombuffer(found.lists, "<u2").reshape(-1, 2)
        blocks = np.frombuffer(found.blocks, ">i4").astype(np.int64)
        sizes = np.frombuffer(found.sizes, ">i4") // _PAIR
        places.append(np.repeat(blocks << BLOCK_BITS, sizes) + pairs[:, 0])
        values.append(value(found, pairs[:, 1]))
    joined = np.concatenate(places)
    order = np.argsort(joined, kind="stable")
    joined = joined[order]
    begins = np.flatnonzero(np.append(True, joined[1:] != joined[:-1])) if len(joined) else order
    scores = np.add.reduceat(np.concatenate(values)[order], begins) if len(begins) else np.zeros(0)
    found_at = joined[begins]
    if len(scores) > most:
        found_at = found_at[np.sort(np.argpartition(-scores, most - 1)[:most])]
    return found_at


def by_words(chunks: int) -> Value:
    """The value idf · n / (n + 1) of a term that stands n times in a chunk."""
    weigh = table(title=1.0, speaker=1.0, date=1.0)

    def value(found: KeyLists, packed: npt.NDArray[np.uint16]) -> Floats:
        times = weigh[packed].astype(np.float64)
        return _rarity(chunks, found) * times / (times + 1)

    return value


def by_names(chunks: int, *, spread: float) -> Value:
    """The value idf / df ** spread of a name, wherever it stands."""

    def value(found: KeyLists, packed: npt.NDArray[np.uint16]) -> Floats:
        return np.full(len(packed), _rarity(chunks, found) / max(found.chunks, 1) ** spread)

    return value


def _rarity(chunks: int, found: KeyLists) -> float:
    return float(rarity(chunks, np.array([found.chunks]))[0])


class KeyCounts:
    """In how many chunks keys stand: remembered while the postings stay as they are."""

    def __init__(self, look: Look, seen: int) -> None:
        self._look = look
        self.seen = seen
        self._known: dict[int, int] = {}

    def remember(self, lists: Sequence[KeyLists], asked: Sequence[int]) -> None:
        """Keep the counts that came with lists; a key without any stands nowhere."""
        self._known |= dict.fromkeys(asked, 0) | {found.key: found.chunks for found in lists}

    def __call__(self, keys: Keys) -> Ints:
        """The counts of some keys."""
        asked = signed(keys)
        new = [key for key in asked if key not in self._known]
        if len(self._known) > _MOST:
            self._known, new = {}, asked
        if new:
            found = self._look(new)
            self._known |= {key: found.get(key, 0) for key in new}
        known = self._known
        return np.array([known[key] for key in asked], np.int64)
