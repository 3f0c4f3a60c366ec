"""Token counting: an estimate for every script, and exact counters where their package is installed.

The estimate is a sum of prices (text/token_prices.py): one for each pair of neighboring characters, in which all beyond
ASCII are alike, and one more for each of those. They are meant to bound the larger of cl100k and o200k from above. No
price is negative, so the estimate never shrinks when text is appended, and parts add up to their whole within a token
each. `python bench/tokens.py` prints its error by kind of text, and what filled contexts really count.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError, MissingExtra
from headgate.text.token_prices import CODES, LAST, PAIRS, UNITS

# Characters counted at a time: a product of more than 10 000 numbers would wake the threads of OpenBLAS.
_PIECE = 1 << 12
_TEXTS = 64  # texts that are counted together ...
_CHARS = 1 << 16  # ... where they have no more characters: so sums of 32 bits are exact
_TWO_BYTES = np.dtype("<u2")
# Prices are added up as their product with ones: the fastest sum of numpy, and exact for whole numbers this small.
_ONES = np.ones(2 * _PIECE, np.float32)


def estimate_tokens(text: str) -> int:
    """About how many tokens a model reads the text as; 0 for an empty text, never less for a longer one."""
    total = _price(text[:_PIECE], " ")
    for at in range(_PIECE, len(text), _PIECE):
        total += _price(text[at : at + _PIECE], text[at - 1])
    return -(-total // UNITS)


def _price(text: str, before: str) -> int:
    total = int(_price_pairs(text, before).dot(_ONES[: len(text)]))
    if not text.isascii():
        # a character beyond 16 bits is two numbers here, each at half its price
        codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), _TWO_BYTES)
        total += int(CODES.take(codes).dot(_ONES[: len(codes)]))
    return total


def _price_pairs(text: str, before: str) -> npt.NDArray[np.float32]:
    raw = _to_bytes(before + text)
    return PAIRS.take(np.ndarray(len(text), _TWO_BYTES, raw, 0, (1,)))


def _price_each(text: str, before: str) -> npt.NDArray[np.float32]:
    prices = _price_pairs(text, before)
    if not text.isascii():
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        prices += CODES.take(np.minimum(codes, LAST))
    return prices


def _to_bytes(text: str) -> bytes:
    """A byte for each character: "?" for those beyond ASCII, and "!" for a question mark."""
    return text.replace("?", "!").encode("ascii", "replace")


def estimate_all(texts: Sequence[str]) -> list[int]:
    """The estimates of many texts; several times faster than one by one where they are short."""
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


def running_tokens(text: str) -> npt.NDArray[np.float64]:
    """The estimate, unrounded, of each beginning of a text: entry n is that of its first n characters."""
    running, before = np.zeros(len(text) + 1), " "
    for at in range(0, len(text), _PIECE):
        piece = text[at : at + _PIECE]
        part = running[at + 1 : at + 1 + len(piece)]
        np.cumsum(_price_each(piece, before), out=part)
        part += running[at]
        before = piece[-1]
    running /= UNITS
    return running


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
