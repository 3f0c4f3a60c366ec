"""Name spans: the runs of capitalized words in many texts, as `text.names.name_spans` finds them in one.

Texts are joined, and each of their characters is of a kind: so words, those with a capital, and what stands between
them are found in arrays, without Python work for each.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from headgate.index.arrays import Bytes, Ints
from headgate.index.lexicon import Tokens
from headgate.text.lazy_pattern import lazy_compile
from headgate.text.letters import capitals
from headgate.text.names import LINKS

_OTHER, _SPACE, _JOINER, _WORD, _CAPITAL = range(1, 6)
_LINKS = frozenset(LINKS)
_IS_CAPITAL = lazy_compile(lambda: f"[{capitals()}]")


def find_spans(texts: Sequence[str]) -> Tokens:
    """The spans of capitalized words in texts; quickest if all are ASCII."""
    joined = "\0".join(["", *texts, ""])
    raw = joined.encode("utf-8", "surrogatepass")
    if joined.isascii():
        begins, ends = _find(joined, np.frombuffer(raw.translate(_ascii_kinds()), np.uint8))
    else:
        begins, ends = _find(joined, _read_kinds(joined))
    stops = 1 + np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
    counts = np.diff(begins.searchsorted(stops), prepend=0)
    if len(raw) > len(joined):
        places = np.flatnonzero(np.frombuffer(raw, np.uint8) & 0xC0 != 0x80)  # of characters
        begins, ends = places[begins], places[ends]
    return Tokens.between(raw, begins, ends, counts)


def _find(text: str, kinds: Bytes) -> tuple[Ints, Ints]:
    inside = kinds >= _JOINER
    begins = 1 + np.flatnonzero((kinds[1:-1] == _CAPITAL) & (kinds[:-2] < _WORD) & inside[2:])
    stops = 1 + np.flatnonzero(inside[:-1] > inside[1:])
    word = stops.searchsorted(begins)
    first = np.diff(word, prepend=-1) > 0
    begins, word = begins[first], word[first]
    ends, step = stops[word], np.diff(word)
    # a word goes on with the span before it if only white space, or a link in it, is between them
    goes_on = (step < 3) & ~inside[begins[1:] - 1]
    at = np.flatnonzero(goes_on)
    others = np.flatnonzero(kinds == _OTHER)
    goes_on[at] = others.searchsorted(ends[at]) == others.searchsorted(begins[at + 1])
    at = np.flatnonzero(goes_on & (step > 1))
    goes_on[at] = False
    between = stops[word[at] + 1]
    short = at[~(inside[between - 4] & inside[between - 3])]
    gaps = zip(ends[short].tolist(), begins[short + 1].tolist(), strict=True)
    goes_on[short] = [text[begin:end].strip() in _LINKS for begin, end in gaps]
    bounds = np.ones(len(begins) + 1, bool)
    bounds[1:-1] = ~goes_on
    return begins[bounds[:-1]], ends[bounds[1:]]


def _read_kinds(text: str) -> Bytes:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    known = _known_kinds()
    kinds: Bytes = known[codes]
    new = np.unique(codes[kinds == 0])
    if len(new):
        known[new] = list(map(_kind, map(chr, new.tolist())))
        kinds = known[codes]
    return kinds


@cache
def _known_kinds() -> Bytes:
    return np.zeros(0x110000, np.uint8)  # 0 for those that were not met


@cache
def _ascii_kinds() -> bytes:
    return bytes(map(_kind, map(chr, range(256))))


def _kind(sign: str) -> int:
    if _IS_CAPITAL.match(sign):
        return _CAPITAL
    if sign.isalnum() or sign == "_":
        return _WORD
    return _JOINER if sign in "'\u2019-" else _SPACE if sign.isspace() else _OTHER
