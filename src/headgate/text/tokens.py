"""Token counting: an estimate for every script, and exact counters where their package is installed.

The estimate is a sum of prices: one for each pair of neighboring characters of ASCII (a letter costs more after a
letter it seldom follows in English), and one for each character beyond, by its script. The prices are meant
to bound the larger of cl100k and o200k from above. No price is negative, so the estimate never shrinks when text is appended, and parts add up
to their whole within a token each. `python bench/tokens.py` prints its error by kind of text, and what filled contexts really count.
"""

import string
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError, MissingExtra

# Prices are whole numbers of a fortieth of a token, written as one digit: so sums are exact, whatever their order.
_UNITS = 40
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase


# Kinds of bytes: blank, the letters, digit, mark, end of line, and all bytes beyond ASCII.
_BLANK, _DIGIT, _MARK, _LINE, _BEYOND = 0, 27, 28, 29, 30


def _kind(byte: int) -> int:
    char = chr(byte)
    if byte >= 0x80:
        return _BEYOND
    if char.isalpha():
        return 1 + string.ascii_lowercase.index(char.lower())
    if char.isdigit():
        return _DIGIT
    return _LINE if char == "\n" else _BLANK if char.isspace() or char == "\0" else _MARK


# The price of a byte after another, a row for each kind of the first and a column for each kind of the second.
# Fitted by non-negative least squares to the relative error against the larger of two exact counts, over texts in many
# languages and code.
_ROWS = (
    "1ZZZZbZZZZZzZZZZZZZZZZiZZZkzgSf",  # blank
    "Kz118cNQ9TP1111V5r111F11I11gpPA",  # a
    "PUOC317Av11B1DE1BDZ11197514hcN1",  # b
    "01A1B1881B4117F18E111137211ZPV1",  # c
    "01E51161t1495811LCOSLDB1317XYO1",  # d
    "01T1111LNzEzM1711111HV1111CYFTO",  # e
    "01H88112M1571C71481D1155324XBaD",  # f
    "0zSM11611JE4O41a161PTZB5316ZYI1",  # g
    "016991G3B175Q611A3791RtA434VaQ1",  # h
    "ZL111211XLzt1111S6I11L11JIBczPH",  # i
    "Sj84B744QD3Q6AE13571BG43685UZQa",  # j
    "0z178O1L11T2m21z14l18zE14F4bBQG",  # k
    "05CB1A1931Q114C11D1V511B818UPS1",  # l
    "0118M1B8t15621D11391H3D4415YBW1",  # m
    "01C1117111EB35H267D1111661AOB9B",  # n
    "0311751zVGD6A1111611916141CTiPI",  # o
    "01593121K1571D72111J11F4314QhQZ",  # p
    "0S4B3AB74D356B652FA54163685WTP4",  # q
    "01k11111218L111167A11I1Q51CXZNS",  # r
    "0XAF615E114bGF5111E111WH451gJR5",  # s
    "01LB11D411Y1W7E1751161E111nZEQ1",  # t
    "011121131595131N13141U1911EoBS1",  # u
    "OX4C6114574K21J6144H5O36523HLQ1",  # v
    "014561451166261183111341414XSQ2",  # w
    "01415HA51143136F14961832184lbS1",  # x
    "09E4G111B11261H193B1b1314B4aBK1",  # y
    "8ME371475X4E4A1E4459CH84514SoQ1",  # z
    "5wadXUZUUUTPXYXWYUXPWTNSqUWBejZ",  # digit
    "0FCOHTS4RM64SRaIJPY4uK4BFHHXC99",  # mark
    "jgZZZZZZcZbZZZkZZZcZZZZZZZbRa11",  # end of line
    "Z3Y2LI82EVWb222252BG22I2H2CJB90",  # beyond
)
_CAPITAL = 4  # what a capital costs more


def _pairs() -> npt.NDArray[np.uint8]:
    """From two neighboring bytes, read as one number, to the price of the second."""
    prices = np.array([[_DIGITS.index(price) for price in row] for row in _ROWS], np.uint8)
    kinds = np.array([_kind(byte) for byte in range(256)])
    table: npt.NDArray[np.uint8] = prices[kinds][:, kinds]
    table[:, list(string.ascii_uppercase.encode())] += _CAPITAL
    return table.T.ravel()  # the first byte is the low one


_PAIRS = _pairs()
_DEAREST = int(_PAIRS.max())

# The price of a character beyond ASCII, from this code point on.
_CYRILLIC = "P7DnG77777777777977KCK77IAe77777KHQKVKzWzakUKKKK"  # а to џ
_SCRIPTS: tuple[tuple[int, int], ...] = (
    (0x0, 0),
    (0x80, 43),  # Latin-1
    (0x100, 49),  # Latin, more
    (0x250, 143),  # phonetic, combining
    (0x370, 32),  # Greek
    (0x400, 53),  # Cyrillic capitals
    *((0x430 + at, _DIGITS.index(price)) for at, price in enumerate(_CYRILLIC)),
    (0x460, 60),  # Cyrillic, more
    (0x530, 80),  # Armenian
    (0x590, 39),  # Hebrew
    (0x600, 22),  # Arabic
    (0x700, 85),  # Syriac to Samaritan
    (0x900, 37),  # Devanagari
    (0x980, 48),  # Bengali
    (0xA00, 67),  # Gurmukhi
    (0xA80, 72),  # Gujarati
    (0xB00, 85),  # Odia
    (0xB80, 57),  # Tamil
    (0xC00, 79),  # Telugu
    (0xC80, 78),  # Kannada
    (0xD00, 72),  # Malayalam
    (0xD80, 85),  # Sinhala
    (0xE00, 40),  # Thai
    (0xE80, 91),  # Lao
    (0xF00, 85),  # Tibetan
    (0x1000, 84),  # Burmese
    (0x10A0, 82),  # Georgian
    (0x1100, 85),  # Hangul parts
    (0x1200, 127),  # Ethiopic
    (0x1380, 85),  # Cherokee to Runic
    (0x1780, 69),  # Khmer
    (0x1800, 85),  # Mongolian to Vedic
    (0x1E00, 21),  # Latin of Vietnamese
    (0x1F00, 99),  # Greek, ancient
    (0x2000, 15),  # punctuation
    (0x2070, 124),  # symbols, arrows, boxes
    (0x2C00, 85),  # Glagolitic to Kangxi
    (0x3000, 15),  # punctuation of East Asia
    (0x3040, 53),  # Kana
    (0x3100, 85),  # Bopomofo and the like
    (0x3400, 52),  # Han
    (0xA000, 85),  # Yi to Meetei
    (0xAC00, 35),  # Hangul
    (0xD7B0, 85),  # private use
    (0xF900, 60),  # full and half width
    (0x10000, 37),  # emoji and all beyond
)
_LAST = 0x10000  # this and all code points beyond have one price
_STARTS, _PRICES = zip(*_SCRIPTS, strict=True)
_CODES = np.repeat(np.array(_PRICES, np.uint8), np.diff((*_STARTS, _LAST + 1)))


def estimate_tokens(text: str) -> int:
    """About how many tokens a model reads the text as; 0 for an empty text, never less for a longer one."""
    if not text:
        return 0
    raw = b" " + text.encode("utf-8", "replace")
    pairs = np.ndarray(len(raw) - 1, "<u2", raw, strides=(1,))
    total = _sum(_PAIRS, pairs)
    if len(raw) > len(text) + 1:
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")
        total += _sum(_CODES, np.minimum(codes, _LAST))
    return -(-total // _UNITS)


def fits_tokens(text: str, most: int) -> bool:
    """Whether the estimate is at most so many tokens; a short text need not be counted for that."""
    if text.isascii() and len(text) * _DEAREST <= most * _UNITS:
        return True
    return estimate_tokens(text) <= most


def running_tokens(text: str) -> npt.NDArray[np.float64]:
    """The estimate, unrounded, of each beginning of a text: entry n is that of its first n characters."""
    raw = b" " + text.encode("utf-8", "replace")
    prices = _PAIRS.take(np.ndarray(len(raw) - 1, "<u2", raw, strides=(1,))).astype(np.int64)
    if len(prices) > len(text):
        data = np.frombuffer(raw, np.uint8, offset=1)
        starts = np.flatnonzero((data & 0xC0) != 0x80)
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")
        prices = np.add.reduceat(prices, starts) + _CODES.take(np.minimum(codes, _LAST))
    return np.concatenate([[0.0], np.cumsum(prices) / _UNITS])


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
