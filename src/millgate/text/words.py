"""Words: the normal form of a text, its tokens and spans.

Normal form: NFKC, lower case, Markdown control characters removed, white space collapsed, length capped.
A token is a run of word characters (identifiers such as `snake_case` and numbers such as `-3.5` and `5%`
stay whole), or one code point of a script that is written without spaces. All other punctuation parts tokens.
Fingerprints are stored, so everything here is the same under every Python: NFKC by the frozen Unicode 3.2
tables (later code points stay as they are), and character classes by the literal ranges below.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from millgate.text.lazy_pattern import lazy_compile
from millgate.text.nfkc import nfkc

MAX_CHARS = 8_388_608  # longer texts are read up to here: 1.6 times the largest window we promise
_EXPANSION = 1024  # characters by which NFKC may lengthen any text; a long one by half of it too
MAX_UNCUT = 1 << 19  # characters without a space or a mark after which a long text is cut anywhere
MAX_RUN = 32  # characters in one token; a longer run (base64, a long URL part) is cut into several

SPAN = 190  # tokens, the middle of 160-220, which fingerprints of windows are defined with
SPAN_TAIL = 30  # a rest of up to this many tokens joins the last span, which then holds 220

# Code points that part tokens, beyond ASCII: controls and Latin-1 punctuation, general punctuation,
# arrows, technical signs, boxes and bullets, brackets and stops of East Asian text, selectors, BOM.
BREAKS: tuple[tuple[int, int], ...] = (
    (0x80, 0xA1), (0xA6, 0xA9), (0xAB, 0xAF), (0xB4, 0xB4), (0xB6, 0xB8), (0xBB, 0xBB), (0xBF, 0xBF),
    (0x2000, 0x206F), (0x2190, 0x21FF), (0x2300, 0x23FF), (0x2400, 0x245F), (0x2500, 0x27BF),
    (0x2900, 0x297F), (0x2B00, 0x2BFF), (0x2E00, 0x2E7F), (0x3000, 0x3004), (0x3008, 0x3020),
    (0x3030, 0x3030), (0x303D, 0x303F), (0x30FB, 0x30FB), (0xFE00, 0xFE1F), (0xFE30, 0xFE6F),
    (0xFEFF, 0xFEFF), (0xFF00, 0xFF0F), (0xFF5F, 0xFF65), (0xFFF0, 0xFFFF),
)  # fmt: skip

# Code points that are tokens by themselves: Han, kana, Hangul, Bopomofo; Thai, Lao, Myanmar, Khmer; emoji.
SINGLES: tuple[tuple[int, int], ...] = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x2E80, 0x2FDF),
    (0x3005, 0x3007), (0x3021, 0x302F), (0x3031, 0x303C), (0x3040, 0x30FA), (0x30FC, 0x31FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F), (0x1F000, 0x1FAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


# Classes of characters, by which tokens are told apart.
_BREAK, _LETTER, _DIGIT, _SINGLE, _SIGN, _POINT, _PERCENT, _BAR = range(8)
_ASCII = (
    ("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER),
    ("0123456789", _DIGIT),
    ("+-$", _SIGN),
    (".,", _POINT),
    ("%", _PERCENT),
    ("_", _BAR),
)

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Kinds = NDArray[np.uint8]

# Marks are removed only if they join no two words, so that removing them never makes one word of two.
_WORD = r"[0-9a-z_\x80-\U0010ffff]"
_LINE_MARKS = lazy_compile(
    r"^[ \t]*(?:(?:#{1,6}|>+|[-+*])[ \t]+)++|^[ \t]*(?:[-=*|:+]+[ \t]*)$", re.M
)
_LINKS = re.compile(r"!?\[([^\[\]\n]*)\]\(([^()\n]*)\)")
_MARKS = lazy_compile(rf"(?<![*`~])(?:(?<!{_WORD})(?:[*`]|~~)++|(?:[*`]|~~)++(?!{_WORD}))")
_EMPHASIS = lazy_compile(rf"(?<!{_WORD})_(?!_)|(?<!_)_(?!{_WORD})")
_TABLE = re.compile(r"(?<!\S)\|+|(?<!\|)\|++(?!\S)")
_DRESS = (
    ("](", _LINKS, r"\1 \2"),
    ("*", _MARKS, ""),
    ("`", _MARKS, ""),
    ("~~", _MARKS, ""),
    ("_", _EMPHASIS, ""),
    ("|", _TABLE, " "),
)

# Where a text can be cut: before white space, ASCII marks that never join a token, and letters that are tokens by
# themselves.
_SEAM = lazy_compile(
    r"""[ \t\n\r!"#&()*/;<=>?@\[\\\]{|}~\u0e01-\u0e2e\u1000-\u1021\u1780-\u17a2"""
    r"""\u3041-\u3094\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7a3\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"""
)


def fold(text: str) -> str:
    """NFKC and lower case, of at most MAX_CHARS characters: what tokens are read from."""
    if len(text) <= MAX_CHARS and text.isascii():  # as most are
        return text.lower()
    # The two compatibility characters of everyday prose, replaced as NFKC would, keep the quick check true. NFKC makes
    # eighteen letters of one, and a hostile text has nothing but those.
    plain = text[:MAX_CHARS].replace("\xa0", " ").replace("…", "...")
    return nfkc(plain, min(MAX_CHARS, len(text) * 3 // 2 + _EXPANSION)).lower()


def cut(text: str, size: int) -> Iterator[str]:
    """A text in pieces of about `size` characters that share no token; an empty one has none.

    Pieces are larger if no place to cut comes soon. A word of 500 000 letters is cut.
    """
    start = 0
    while len(text) - start > size:
        last = min(len(text), start + size + MAX_UNCUT)
        seam = _SEAM.search(text, start + size, last)
        end = seam.start() if seam else last
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def plain(folded: str) -> str:
    """A folded text without Markdown control characters and with single spaces."""
    text = _LINE_MARKS.sub("", folded)
    for sign, marks, instead in _DRESS:
        if sign in text:  # ten times faster than a search that finds nothing
            text = marks.sub(instead, text)
    return " ".join(text.split())


def normal(text: str) -> str:
    """The normal form: two texts with the same one say the same."""
    return plain(fold(text))


def tokens(text: str) -> list[str]:
    """The tokens of a text, in reading order."""
    folded = fold(text)
    starts, stops = find_tokens(folded)
    return [folded[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]


def split_spans(text: str) -> list[str]:
    """The text, folded, in pieces of 190 tokens (the last one up to 220)."""
    folded = fold(text)
    starts, _ = find_tokens(folded)
    if not len(starts):
        return []
    firsts = starts[SPAN::SPAN].tolist()
    if firsts and len(starts) - SPAN * len(firsts) <= SPAN_TAIL:
        firsts.pop()
    return [folded[low:high] for low, high in pairwise([0, *firsts, len(folded)])]


def find_tokens(text: str) -> tuple[Ints, Ints]:
    """Where the tokens of a text, folded or as it is written, start and stop."""
    if text.isascii():
        kinds = np.frombuffer(text.encode().translate(_classes()[:256].tobytes()), np.uint8)
    else:
        kinds = _classes()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")]
    edged = np.zeros(kinds.size + 2, np.uint8)
    edged[1:-1] = kinds
    inside = (edged > _BREAK) & (edged < _SIGN)
    rare = np.flatnonzero(edged >= _SIGN)
    inside[rare] = _joins(edged[rare - 1], edged[rare], edged[rare + 1])
    single = edged == _SINGLE
    edge = (inside[1:] != inside[:-1]) | single[1:] | single[:-1]
    return _cut_long(np.flatnonzero(edge & inside[1:]), np.flatnonzero(edge & inside[:-1]))


@cache
def _classes() -> Kinds:
    """The class of every code point."""
    table = np.full(0x110000, _LETTER, np.uint8)
    table[:0x80] = _BREAK
    for characters, kind in _ASCII:
        table[[*characters.encode()]] = kind
    for ranges, kind in ((BREAKS, _BREAK), (SINGLES, _SINGLE)):
        for low, high in ranges:
            table[low : high + 1] = kind
    return table


def _joins(before: Kinds, kind: Kinds, after: Kinds) -> Bools:
    """Whether a sign, point, percent or bar belongs to the token it touches: -3.5, 5%, snake_case and __dunder__ are
    tokens, and of _emphasis_ only the word is.
    """
    digit_before, digit_after = before == _DIGIT, after == _DIGIT
    letter_before, letter_after = (
        digit_before | (before == _LETTER),
        digit_after | (after == _LETTER),
    )
    bar_before, bar_after = before == _BAR, after == _BAR
    joins: Bools = (kind == _SIGN) & digit_after & ~letter_before & ~bar_before
    joins |= (kind == _POINT) & digit_before & digit_after
    joins |= (kind == _PERCENT) & digit_before
    joins |= (kind == _BAR) & (bar_before | bar_after | (letter_before & letter_after))
    return joins


def _cut_long(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    lengths = stops - starts
    if not lengths.size or lengths.max() <= MAX_RUN:
        return starts, stops
    pieces = -(-lengths // MAX_RUN)
    first = np.repeat(np.cumsum(pieces) - pieces, pieces)
    begins = np.repeat(starts, pieces) + MAX_RUN * (np.arange(first.size) - first)
    return begins, np.minimum(begins + MAX_RUN, np.repeat(stops, pieces))
