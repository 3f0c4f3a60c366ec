"""Memo: what was worked out of words and texts, remembered in bounded room.

A memo has two generations. What is asked for goes into the young one. When that is full it becomes the old one, and
what nobody asked for since is forgotten: words in use stay, a hit costs one look-up, and forgetting costs nothing a
word.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

LONGEST = 40
"""Characters of what is remembered; longer words are seldom met twice."""

_PLACE_BITS = 17  # of a table of numbers, which takes 2 MB
_ODD = np.uint64(0x9E3779B97F4A7C15)
_DIGITS = 6  # of a number that is remembered; longer ones are ids and times

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


def may_return(word: str) -> bool:
    """Whether a word may well be met again: it is neither long nor a long number."""
    return len(word) <= LONGEST and not (len(word) > _DIGITS and word.isdigit())


class Room:
    """How many entries some memos have together, so that those of one language may fill it alone."""

    def __init__(self, entries: int) -> None:
        self._half = entries // 2
        self._left = self._half
        self._memos: list[Generations[Any, Any]] = []

    def add(self, memo: "Generations[Any, Any]") -> None:
        """Let a memo share the room."""
        self._memos.append(memo)

    def take(self) -> None:
        """Make room for one entry. Threads that do so at once may be one entry wrong."""
        if self._left <= 0:
            self._left = self._half
            for memo in self._memos:
                memo.age()
        self._left -= 1

    def spare(self, entries: int) -> bool:
        """Make room for some entries if no other has to go."""
        fits = entries <= self._left
        self._left -= entries * fits
        return fits


class Generations(dict[K, V], Generic[K, V]):
    """A key -> what was worked out for it (never None), as long as it is remembered. Any number of threads may ask."""

    def __init__(self, room: Room) -> None:
        super().__init__()
        self._room = room
        self._old: dict[K, V] = {}
        room.add(self)

    def find(self, key: K) -> V | None:
        """What is remembered of a key, None where nothing is."""
        value = self.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self._put(key, value)
        return value

    def recall(self, keys: Collection[K]) -> tuple[dict[K, V], set[K]]:
        """What is remembered of these keys, and those that are not."""
        young, old = self.get, self._old
        found = {key: value for key in keys if (value := young(key)) is not None}
        new = {key for key in keys if key not in found}
        again = {key: old[key] for key in new if key in old}
        Generations.remember(self, again)
        return found | again, new - again.keys()

    def read(
        self, keys: Sequence[K], things: Sequence[T], work: Callable[[list[T]], Iterable[V]]
    ) -> list[V]:
        """What was worked out for each key; the things whose keys are new go through `work` together."""
        known, new = self.recall(keys)
        if new:
            unread = {key: thing for key, thing in zip(keys, things, strict=True) if key in new}
            fresh = dict(zip(unread, work([*unread.values()]), strict=True))
            self.remember(fresh)
            known |= fresh
        return [known[key] for key in keys]

    def remember(self, found: Mapping[K, V]) -> None:
        """Remember what was worked out elsewhere."""
        if self._room.spare(len(found)):
            self.update(found)
            return
        for key, value in found.items():
            self._put(key, value)

    def _put(self, key: K, value: V) -> None:
        self._room.take()
        self[key] = value

    def age(self) -> None:
        """Forget the old entries; the young ones are old from now on."""
        self._old = dict(self)
        self.clear()


class Memo(Generations[str, V], Generic[V]):
    """A word -> what `read` makes of it, for every word there is. Those that may be met again are remembered."""

    def __init__(self, read: Callable[[str], V], room: Room) -> None:
        super().__init__(room)
        self._read = read

    def __missing__(self, word: str) -> V:
        found = self._old.get(word)
        if found is None:
            found = self._read(word)
        if may_return(word):
            self._put(word, found)
        return found

    def remember(self, found: Mapping[str, V]) -> None:
        """Remember what was worked out of words elsewhere, of those that may be met again."""
        super().remember({w: own for w, own in found.items() if len(w) <= _DIGITS or may_return(w)})


class NumberTable:
    """Words -> numbers of 64 bits, without a string for each: a word is known by its hash and has one place, which a
    later one may take. Any number of threads may ask.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all words; the lock is a new one, since a forked child may inherit it held."""
        self._hashes, self._numbers = np.zeros((2, 1 << _PLACE_BITS), np.uint64)
        self._lock = Lock()

    def of(
        self, words: Sequence[str], read: Callable[[set[str]], Mapping[str, int]], *, kind: int
    ) -> npt.NDArray[np.uint64]:
        """The number of each word; new ones are read together. `kind` tells what is read of them."""
        hashes = np.fromiter(map(hash, words), np.int64, len(words)).view(np.uint64)
        # Python's hash is of the bytes, which may be those of another word in wider characters
        hashes ^= np.fromiter(map(len, words), np.uint64, len(words)) * _ODD ^ np.uint64(kind)
        hashes |= np.uint64(1)
        places = (hashes >> np.uint64(64 - _PLACE_BITS)).astype(np.int64)
        with self._lock:
            found = self._numbers[places]
            new = np.flatnonzero(self._hashes[places] != hashes)
        if len(new):
            unread = [words[at] for at in new.tolist()]
            known = read(set(unread))
            fresh = np.fromiter(map(known.__getitem__, unread), np.uint64, len(unread))
            found[new] = fresh
            places, hashes = places[new], hashes[new]
            with self._lock:
                self._numbers[places] = fresh
                stays = self._numbers[places] == fresh
                self._hashes[places[stays]] = hashes[stays]
        return found
