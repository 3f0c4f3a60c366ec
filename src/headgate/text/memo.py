"""Memo: what was worked out of words, remembered in bounded room.

A memo has two generations. What is asked for goes into the young one. When that is full it becomes the old one, and
what nobody asked for since is forgotten: words in use stay, a hit costs one look-up, and forgetting costs nothing a
word.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

LONGEST = 40
"""Characters of what is remembered; longer words are seldom met twice."""

V = TypeVar("V")


class Room:
    """How many words some memos remember together, so that those of one language may fill it alone."""

    def __init__(self, words: int) -> None:
        self._half = words // 2
        self._left = self._half
        self._memos: list[Memo[Any]] = []

    def add(self, memo: "Memo[Any]") -> None:
        """Let a memo share the room."""
        self._memos.append(memo)

    def take(self) -> None:
        """Make room for one word. Threads that do so at once may be one word wrong."""
        if self._left <= 0:
            self._left = self._half
            for memo in self._memos:
                memo.age()
        self._left -= 1


class Memo(dict[str, V], Generic[V]):
    """A word -> what `read` makes of it, for every word there is. Any number of threads may ask."""

    def __init__(self, read: Callable[[str], V], room: Room) -> None:
        super().__init__()
        self._read = read
        self._room = room
        self._old: dict[str, V] = {}
        room.add(self)

    def __missing__(self, word: str) -> V:
        found = self._old.get(word)
        if found is None:
            found = self._read(word)
        if len(word) <= LONGEST:
            self._room.take()
            self[word] = found
        return found

    def recall(self, words: Iterable[str]) -> tuple[dict[str, V], set[str]]:
        """What is remembered of these words, and those that are not."""
        old = self._old
        found = {word: self[word] for word in words if word in self or word in old}
        return found, {word for word in words if word not in found}

    def remember(self, found: Mapping[str, V]) -> None:
        """Remember what was worked out of words elsewhere; long ones are left out."""
        for word, value in found.items():
            if len(word) <= LONGEST:
                self._room.take()
                self[word] = value

    def age(self) -> None:
        """Forget the old words; the young ones are old from now on."""
        self._old = dict(self)
        self.clear()
