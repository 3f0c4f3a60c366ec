"""Name spans: the runs of capitalized words in many texts, as `text.names.spans` finds them in one.

Texts of ASCII are joined, and each of their bytes is of a kind: so words, those with a capital, and what stands between
them are found in arrays, without Python work for each.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from headgate.index.arrays import Bytes, Ints
from headgate.index.lexicon import Pieces
from headgate.text.names import LINKS, spans

_OTHER, _SPACE, _JOINER, _WORD, _CAPITAL = range(5)


def find_spans(texts: Sequence[str]) -> Pieces:
    """The spans of capitalized words in texts; quick where all are ASCII."""
    joined = "\0".join(["", *texts, ""])
    if joined.isascii():
        raw = joined.encode()
        begins, ends = _find(raw, np.frombuffer(raw.translate(_kinds()), np.uint8))
        stops = 1 + np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
        counts = np.diff(begins.searchsorted(stops), prepend=0)
    else:
        found = [spans(text) for text in texts]
        raw = "".join([f"{span}\0" for own in found for span in own]).encode()
        ends = np.flatnonzero(np.frombuffer(raw, np.uint8) == 0)
        begins, counts = np.append(0, ends + 1)[:-1], np.array(list(map(len, found)))
    return Pieces.between(raw, begins, ends, counts)


def _find(raw: bytes, kinds: Bytes) -> tuple[Ints, Ints]:
    inside = kinds >= _JOINER
    begins = 1 + np.flatnonzero((kinds[1:-1] == _CAPITAL) & (kinds[:-2] < _WORD) & inside[2:])
    stops = 1 + np.flatnonzero(inside[:-1] > inside[1:])
    word = stops.searchsorted(begins)
    first = np.diff(word, prepend=-1) > 0
    begins, word = begins[first], word[first]
    ends, step = stops[word], np.diff(word)
    # a word goes on with the span before it where only white space, or a link in it, is between them
    goes_on = (step < 3) & ~inside[begins[1:] - 1]
    at = np.flatnonzero(goes_on)
    others = np.flatnonzero(kinds == _OTHER)
    goes_on[at] = others.searchsorted(ends[at]) == others.searchsorted(begins[at + 1])
    at = np.flatnonzero(goes_on & (step > 1))
    goes_on[at] = False
    between = stops[word[at] + 1]
    short = at[~(inside[between - 4] & inside[between - 3])]
    gaps = zip(ends[short].tolist(), begins[short + 1].tolist(), strict=True)
    for one, (begin, end) in zip(short.tolist(), gaps, strict=True):
        goes_on[one] = raw[begin:end].decode().strip() in LINKS
    bounds = np.ones(len(begins) + 1, bool)
    bounds[1:-1] = ~goes_on
    return begins[bounds[:-1]], ends[bounds[1:]]


@cache
def _kinds() -> bytes:
    signs = list(map(chr, range(256)))
    word = [_WORD * (sign.isalnum() or sign == "_") or _JOINER * (sign in "'-") for sign in signs]
    other = [_CAPITAL * sign.isupper() or _SPACE * sign.isspace() for sign in signs]
    return bytes(map(max, word, other))
