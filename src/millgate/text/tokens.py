"""Token counting: an estimate for every script, and exact counters if their package is installed.

The estimate is a sum of prices (text/token_prices.py): one for each pair of neighboring characters, in which all beyond
ASCII are alike, and one more for each of those. They are meant to bound the larger of cl100k and o200k from above. No
price is negative, so the estimate never shrinks when text is appended, and parts add up to their whole within a token
each. `make bench-tokens` prints its error by kind of text, and what filled contexts really count.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from millgate.errors import ConfigError, MissingExtra
from millgate.text.token_prices import CODES, LAST, PAIRS, UNITS

# Characters counted at a time: sums of so few whole numbers are exact in 32 bits, and a long text is not copied whole.
_PIECE = 1 << 12
_WINDOW = 1 << 16  # characters of a running estimate that are worked out together, and ...
_WINDOWS = 4  # ... how many times as many are held
_TEXTS = 64  # texts that are counted together ...
_CHARS = 1 << 16  # ... if they have no more characters than this: so sums of 32 bits are exact
_TWO_BYTES = np.dtype("<u2")


def estimate_tokens(text: str) -> int:
    """About how many tokens a model reads the text as; 0 for an empty text, never less for a longer one."""
    return -(-_price_long(text, " ") // UNITS)


def tokens_by_size(size: int) -> float:
    """Four characters a token: for an answer that is passed on unread, and as the measure of `eval retrieval` has it.
    Whatever is read is counted by `estimate_tokens`.
    """
    return size / 4


def _price_long(text: str, before: str) -> int:
    total = _price(text[:_PIECE], before)
    for at in range(_PIECE, len(text), _PIECE):
        total += _price(text[at : at + _PIECE], text[at - 1])
    return total


def _price(text: str, before: str) -> int:
    """What a piece of text costs after the character before it."""
    total = int(_price_pairs(text, before).sum())
    if not text.isascii():
        # a character beyond 16 bits is two numbers here, each at half its price
        codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), _TWO_BYTES)
        total += int(CODES.take(codes).sum())
    return total


def _price_pairs(text: str, before: str) -> npt.NDArray[np.float32]:
    raw = _to_bytes(before + text)
    return PAIRS.take(np.ndarray(len(text), _TWO_BYTES, raw, 0, (1,)))


def _price_each(text: str, before: str) -> npt.NDArray[np.float32]:
    """What each character of a text costs."""
    prices = _price_pairs(text, before)
    if not text.isascii():
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        prices += CODES.take(np.minimum(codes, LAST))
    return prices


def _to_bytes(text: str) -> bytes:
    """A byte for each character: "?" for those beyond ASCII, and "!" for a question mark."""
    return text.replace("?", "!").encode("ascii", "replace")


def estimate_all(texts: Sequence[str]) -> list[int]:
    """The estimates of many texts; several times faster than one by one if they are short."""
    # ASCII apart from what takes three times as long
    order = sorted(range(len(texts)), key=lambda at: texts[at].isascii())
    groups = (order[at : at + _TEXTS] for at in range(0, len(order), _TEXTS))
    counts = [count for group in groups for count in _estimate_group([texts[at] for at in group])]
    return [count for _, count in sorted(zip(order, counts, strict=True))]


def _estimate_group(texts: list[str]) -> list[int]:
    lengths = np.array(list(map(len, texts)))
    ends = np.cumsum(lengths + 1) - 1
    if ends[-1] >= _CHARS:
        return list(map(estimate_tokens, texts))
    # the space before a text is what its first character is priced after; the one behind it is not counted
    prices = _price_each(" ".join(texts) + " ", " ")
    totals = np.add.reduceat(prices, ends - lengths) - prices[ends]
    return [-(-int(total) // UNITS) for total in totals.tolist()]


class RunningTokens:
    """The estimate, unrounded, of each beginning of a text: entry n is that of its first n characters.

    Only a few windows of a long text are held: all entries would take eight times its bytes.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._totals = [0]  # of all windows before each
        for at in range(0, len(text) - _WINDOW, _WINDOW):
            more = _price_long(text[at : at + _WINDOW], self._before(at))
            self._totals.append(self._totals[-1] + more)
        self._starts = [total / UNITS for total in self._totals]
        self._windows: dict[int, npt.NDArray[np.float64]] = {}
        self._open(0)

    def __len__(self) -> int:
        return len(self._text) + 1

    def __getitem__(self, at: int) -> float:
        if not self._from <= at < self._to:
            self._open(at // _WINDOW)
        return self._item(at - self._from)

    def reach(self, start: int, most: float) -> int:
        """The end of the longest part from a start that has no more than so many tokens."""
        before = self[start]
        window = max(0, bisect_right(self._starts, before + most) - 1)
        found = int(np.searchsorted(self._window(window), before + most, side="right"))
        end = window * _WINDOW + found - 1
        # a sum may be rounded otherwise than a difference
        while end < len(self._text) and self[end + 1] - before <= most:
            end += 1
        while self[end] - before > most:
            end -= 1
        return end

    def _open(self, number: int) -> None:
        number = min(number, len(self._totals) - 1)
        window = self._window(number)
        self._from, self._item = number * _WINDOW, window.item
        self._to = self._from + len(window)

    def _window(self, number: int) -> npt.NDArray[np.float64]:
        found = self._windows.get(number)
        if found is None:
            start = number * _WINDOW
            text = self._text[start : start + _WINDOW]
            found = np.empty(len(text) + 1)
            found[0] = self._totals[number]
            found[1:] = _price_each(text, self._before(start))
            np.cumsum(found, out=found)
            found /= UNITS
            if len(self._windows) == _WINDOWS:
                del self._windows[next(iter(self._windows))]
            self._windows[number] = found
        return found

    def _before(self, at: int) -> str:
        return self._text[at - 1] if at else " "


def counter(name: str = "estimate") -> Callable[[str], int]:
    """'estimate', or the exact counter of a model family: 'o200k_base', 'cl100k_base', 'llama3', ..."""
    return estimate_tokens if name == "estimate" else _exact(name)


@cache
def _exact(name: str) -> Callable[[str], int]:
    try:
        from splintr import Tokenizer  # noqa: PLC0415  an extra, loaded when asked for
    except ImportError:
        raise MissingExtra("splintr-rs", extra="tokens") from None
    try:
        encode = Tokenizer.from_pretrained(name).encode_ordinary
    except (ValueError, OSError) as error:
        raise ConfigError(
            f"token counter is {name!r}: {error}", hint="use 'estimate', or e.g. 'o200k_base'"
        ) from error

    def count(text: str) -> int:
        return len(encode(text.encode("utf-8", "replace").decode("utf-8")))

    return count
