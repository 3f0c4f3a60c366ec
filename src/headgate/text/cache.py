"""Cache: windows and texts that were read before are not read again.

Keys are the raw texts (hashing one costs a microsecond; its normal form would cost ten). Entries leave when
there are too many or too large ones (least recently used first) or when they are too old. A window that grew by
appending, in blocks or in its last text, starts from the index it had.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from sys import getsizeof
from threading import Lock
from typing import Generic, TypeVar

from headgate.errors import InputError
from headgate.text.coverage import WindowIndex
from headgate.text.fingerprint import unpack
from headgate.text.hashes import U32, Tokens

_ENTRY = 200  # bytes of an entry beside its key and its value
_INDEXED = 28  # bytes of a token in an index: itself, and its place in a set

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping that forgets what was used least recently: it holds `max_bytes`, and nothing older than `age_s`.

    `measure` is the bytes of a key and its value together. Safe to share between threads.
    """

    def __init__(
        self,
        max_bytes: int,
        measure: Callable[[K, V], int],
        *,
        entries: int | None = None,
        age_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = entries or max_bytes
        self._age_s = age_s
        self._clock = clock
        self._left = max_bytes
        self._measure = measure
        self._items: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._items)

    def find(self, keys: Sequence[K]) -> list[V | None]:
        """The value of each key, None where it is unknown or too old."""
        oldest = self._clock() - self._age_s
        found: list[V | None] = []
        with self._lock:
            known, touch = self._items.get, self._items.move_to_end
            for key in keys:
                item = known(key)
                if item is not None and item[0] > oldest:
                    touch(key)
                    found.append(item[1])
                else:
                    found.append(None)
        return found

    def keep(self, items: Mapping[K, V]) -> None:
        """Remember these, and forget the least recently used beyond the limit."""
        now = self._clock()
        with self._lock:
            for key, value in items.items():
                if key in self._items:
                    self._left += self._size(key, self._items.pop(key)[1])
                self._items[key] = (now, value)
                self._left -= self._size(key, value)
            while self._items and (self._left < 0 or len(self._items) > self._most):
                key, (_, value) = self._items.popitem(last=False)
                self._left += self._size(key, value)

    def _size(self, key: K, value: V) -> int:
        return _ENTRY + self._measure(key, value)

    def latest(self) -> list[K]:
        """The keys, most recently used first."""
        with self._lock:
            return list(reversed(self._items))


class WindowCache:
    """Indexes of recent windows and token hashes of recent texts."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        entries: int = 10_000,  # published
        windows: int = 256,  # as many sessions as take turns; what they hold is bound by their tokens
        age_s: float = 1200.0,  # published: 10 to 30 minutes
        text_bytes: int = 32_000_000,  # 10 000 chunks and their tokens take 20 million
        window_bytes: int = 32_000_000,  # of about a million tokens
    ) -> None:
        self._texts: Recent[str, U32] = Recent(
            text_bytes, _measure_text, entries=entries, age_s=age_s, clock=clock
        )
        self._windows: Recent[tuple[str, ...], WindowIndex] = Recent(
            window_bytes, _measure_window, entries=windows, age_s=age_s, clock=clock
        )

    def index(self, texts: Sequence[str]) -> WindowIndex:
        """The index of a window, as much of it re-used as is known."""
        key = tuple(texts)
        (known,) = self._windows.find([key])
        if known is None:
            known = self._extend_known(key) or WindowIndex.of(key)
            self._windows.keep({key: known})
        return known

    def _extend_known(self, texts: tuple[str, ...]) -> WindowIndex | None:
        """The index of the longest known window that this one begins with, extended by the rest."""
        rests = {
            old: rest for old in self._windows.latest() if (rest := appended_texts(old, texts))
        }
        for old in sorted(rests, key=lambda old: sum(map(len, rests[old]))):
            (index,) = self._windows.find([old])
            if index is not None:
                return index.with_texts(rests[old])
        return None

    def unknown(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts are not remembered."""
        return [part is None for part in self._texts.find(texts)]

    def tokens(self, texts: Sequence[str], packed: Sequence[bytes | None] = ()) -> Tokens:
        """The tokens of texts: from the cache, then from stored bytes, and all others read at once."""
        parts = self._texts.find(texts)
        fresh: dict[str, U32] = {}
        for at, data in enumerate(packed):
            if parts[at] is None and data is not None and (read := _unpack(data)) is not None:
                fresh[texts[at]] = read
        known = [*zip(texts, parts, strict=True)]
        if missing := [*{text: None for text, part in known if part is None and text not in fresh}]:
            fresh.update(zip(missing, Tokens.of(missing).split(), strict=True))
        self._texts.keep(fresh)
        return Tokens.join([fresh[text] if part is None else part for text, part in known])


def _measure_text(text: str, tokens: U32) -> int:
    return getsizeof(text) + tokens.nbytes


def _measure_window(texts: tuple[str, ...], index: WindowIndex) -> int:
    return sum(map(getsizeof, texts)) + _INDEXED * index.tokens.size


def appended_texts(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """What `new` adds to `old`, if it is `old` with something appended; else nothing."""
    if not old or len(new) < len(old) or new[: len(old) - 1] != old[:-1]:
        return ()
    last, grown = old[-1], new[len(old) - 1]
    rest = grown[len(last) :]
    if not grown.startswith(last) or (rest and not (rest[0].isspace() or last[-1:].isspace())):
        return ()  # another text, or one that goes on in the middle of a word
    return tuple(text for text in (rest, *new[len(old) :]) if text)


def _unpack(data: bytes) -> U32 | None:
    try:
        return unpack(data)
    except InputError:
        return None  # of another version: read the text again
