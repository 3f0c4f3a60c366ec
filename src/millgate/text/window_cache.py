"""Window cache: windows and texts that were read before are not read again.

Keys are the raw texts: hashing one costs a microsecond, its normal form would cost ten. A window that grew by
appending, in blocks or in its last text, starts from the index it had.
"""

from collections.abc import Callable, Sequence
from sys import getsizeof

from millgate.errors import InputError
from millgate.text.cache import Cache
from millgate.text.coverage import WindowIndex
from millgate.text.fingerprint import unpack
from millgate.text.hashes import U32, Tokens

_INDEXED = 28  # bytes of a token in an index: itself, and its place in a set


class WindowCache:
    """Indexes of recent windows and token hashes of recent texts.

    A request with a window of 8 000 tokens takes 3 % more CPU without the windows, and 2 to 4 % more without the texts
    (40 queries over 1 600 chunks, alternated).
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        entries: int = 10_000,
        windows: int = 256,  # as many sessions as take turns; what they hold is bound by their tokens
        age_s: float = 1200.0,
        text_bytes: int = 32_000_000,  # 10 000 chunks and their tokens take 20 million
        window_bytes: int = 32_000_000,  # of about a million tokens
    ) -> None:
        self._texts: Cache[str, U32] = Cache(
            text_bytes, _measure_text, max_entries=entries, max_age_s=age_s, clock=clock
        )
        self._windows: Cache[tuple[str, ...], WindowIndex] = Cache(
            window_bytes, _measure_window, max_entries=windows, max_age_s=age_s, clock=clock
        )

    def index(self, texts: Sequence[str]) -> WindowIndex:
        """The index of a window, as much of it re-used as is known."""
        key = tuple(texts)
        known = self._windows.get(key)
        if known is None:
            known = self._extend_known(key) or WindowIndex.of(key)
            self._windows.put(key, known)
        return known

    def _extend_known(self, texts: tuple[str, ...]) -> WindowIndex | None:
        """The index of the longest known window that this one begins with, extended by the rest."""
        rests = [
            (rest, index)
            for old, index in self._windows.items()
            if (rest := appended_texts(old, texts))
        ]
        if not rests:
            return None
        rest, index = min(rests, key=lambda found: sum(map(len, found[0])))
        return index.with_texts(rest)

    def unknown(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts are not remembered."""
        return [part is None for part in self._texts.get_many(texts)]

    def tokens(self, texts: Sequence[str], packed: Sequence[bytes | None] = ()) -> Tokens:
        """The tokens of texts: from the cache, then from stored bytes, and all others read at once."""
        parts = self._texts.get_many(texts)
        fresh: dict[str, U32] = {}
        for at, data in enumerate(packed):
            if parts[at] is None and data is not None and (read := _unpack(data)) is not None:
                fresh[texts[at]] = read
        known = [*zip(texts, parts, strict=True)]
        if missing := [*{text: None for text, part in known if part is None and text not in fresh}]:
            fresh.update(zip(missing, Tokens.of(missing).split(), strict=True))
        self._texts.put_many(fresh)
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
