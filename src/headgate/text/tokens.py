"""Token counting: an estimate for every script, and exact counters where their package is installed.

The estimate is a sum of prices (text/token_prices.py): one for each pair of neighboring bytes, and one more for each
character beyond ASCII. They are meant to bound the larger of cl100k and o200k from above. No price is
negative, so the estimate never shrinks when text is appended, and parts add up to their whole within a token each.
`python bench/tokens.py` prints its error by kind of text, and what filled contexts really count.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError, MissingExtra
from headgate.text.token_prices import CODES, DEAREST, LAST, PAIRS, UNITS

_PIECE = 1 << 18  # characters counted at a time: the arrays on the way take twenty bytes for each


def estimate_tokens(text: str) -> int:
    """About how many tokens a model reads the text as; 0 for an empty text, never less for a longer one."""
    if not text:
        return 0
    total, before = 0, b" "
    for at in range(0, len(text), _PIECE):
        price, before = _price(text[at : at + _PIECE], before)
        total += price
    return -(-total // UNITS)


def _price(text: str, before: bytes) -> tuple[int, bytes]:
    """What a text costs after one that ends with the byte `before`; and the last byte of its own."""
    raw = before + text.encode("utf-8", "replace")
    total = _sum(PAIRS, np.ndarray(len(raw) - 1, "<u2", raw, strides=(1,)))
    if len(raw) > len(text) + 1:
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")
        total += _sum(CODES, np.minimum(codes, LAST))
    return total, raw[-1:]


def fits_tokens(text: str, most: int) -> bool:
    """Whether the estimate is at most so many tokens; a short text need not be counted for that."""
    if text.isascii() and len(text) * DEAREST <= most * UNITS:
        return True
    return estimate_tokens(text) <= most


def running_tokens(text: str) -> npt.NDArray[np.float64]:
    """The estimate, unrounded, of each beginning of a text: entry n is that of its first n characters."""
    raw = b" " + text.encode("utf-8", "replace")
    prices = PAIRS.take(np.ndarray(len(raw) - 1, "<u2", raw, strides=(1,)))
    if len(prices) > len(text):
        data = np.frombuffer(raw, np.uint8, offset=1)
        starts = np.flatnonzero((data & 0xC0) != 0x80)
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")
        prices = np.add.reduceat(prices, starts, dtype=np.uint16)
        prices += CODES.take(np.minimum(codes, LAST))
    running = np.zeros(len(prices) + 1)
    np.cumsum(prices, out=running[1:])
    running /= UNITS
    return running


def _sum(prices: npt.NDArray[np.uint8], keys: npt.NDArray[np.unsignedinteger]) -> int:
    return int(np.add.reduce(prices.take(keys), dtype=np.int64))


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
