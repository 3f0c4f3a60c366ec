"""Sketch: a window's shingles in two bytes each, for callers who do not send its text.

It keeps the top bits of the window's 3-shingle hashes, sorted, as 16-bit differences (65535 means "add that and
read on"). With 4 096 to 8 192 places per shingle a foreign one is taken for known once in 4 096 times or less.
A 5-shingle counts as known when its three 3-shingles are, which natural text rarely belies.
Texts of one or two tokens cannot be judged and count as new.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.errors import InputError
from headgate.text.coverage import (
    PUBLISHED_SIZES,
    SHORT_SHINGLE,
    HashSet,
    Shares,
    WindowIndex,
    by_shingles,
)
from headgate.text.hashes import U32, U64, Bools, Tokens, shingle_hashes

# bits beyond the count: 4 096 to 8 192 places a shingle, so that one difference in 2 900 exceeds 16 bits
_SPARSE = 12
_FULL = 65_535
_MAX_BITS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The window's 3-shingles, cut to `bits` bits."""

    places: U64
    bits: int
    _set: HashSet

    @classmethod
    def of(cls, index: WindowIndex) -> "Sketch":
        """Of a window whose text is known."""
        hashes = index.shingles(SHORT_SHINGLE).distinct
        bits = hashes.size.bit_length() + _SPARSE
        places = hashes >> np.uint64(64 - bits)
        fresh = np.ones(places.size, dtype=bool)
        np.not_equal(places[1:], places[:-1], out=fresh[1:])
        return cls._made(places[fresh], bits)

    @classmethod
    def _made(cls, places: U64, bits: int) -> "Sketch":
        return cls(places, bits, HashSet.sorted(places << np.uint64(64 - bits)))

    def overlap(self, tokens: Tokens) -> Shares:
        """For each text, the estimated share of its tokens that the window contains, 0..1."""
        return by_shingles(tokens, self._hits, sizes=PUBLISHED_SIZES[2:])

    def _hits(self, tokens: U32, size: int) -> Bools:
        spare = np.uint64(64 - self.bits)
        threes = self._set.contains(shingle_hashes(tokens, SHORT_SHINGLE) >> spare << spare)
        width = size - SHORT_SHINGLE
        known = threes[width:].copy()
        for back in range(width):
            known &= threes[back : back - width]
        return known

    def to_json(self) -> dict[str, Any]:
        """As plain values: bits, count, and the differences in base64."""
        steps = np.diff(self.places, prepend=np.uint64(0)).astype(np.int64)
        ends = np.cumsum(steps // _FULL + 1) - 1
        coded = np.full(int(ends[-1]) + 1 if ends.size else 0, _FULL, dtype="<u2")
        coded[ends] = steps % _FULL
        return {
            "bits": self.bits,
            "count": int(self.places.size),
            "data": b64encode(coded.tobytes()).decode("ascii"),
        }

    @classmethod
    def from_json(cls, value: object) -> "Sketch":
        """From what `to_json` gave; anything else is an InputError."""
        if not isinstance(value, Mapping):
            raise _wrong("it must be an object with bits, count and data")
        bits, count, data = value.get("bits"), value.get("count"), value.get("data")
        if not isinstance(bits, int) or not 1 <= bits <= _MAX_BITS:
            raise _wrong(f"bits is {bits!r}; allowed are 1 to {_MAX_BITS}")
        try:
            coded = np.frombuffer(b64decode(data or "", validate=True), dtype="<u2")
        except (TypeError, ValueError, binascii.Error):
            raise _wrong("data is no base64 of 16-bit numbers") from None
        places = np.cumsum(coded, dtype=np.uint64)[coded != _FULL]
        if places.size != count:
            raise _wrong(f"count is {count!r}, but data holds {places.size}")
        if places.size and (int(places[-1]) >> bits or (np.diff(places) == 0).any()):
            raise _wrong(f"data does not rise within {bits} bits")
        return cls._made(places, bits)


def _wrong(what: str) -> InputError:
    return InputError(
        f"the window fingerprint's sketch cannot be read: {what}",
        hint="leave 'sketch' out, or send it as WindowFingerprint.to_json gave it",
    )
