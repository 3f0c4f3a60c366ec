"""Sketch: a window's shingles in three bytes a token, for callers who do not send its text.

It keeps the top bits of the window's shingle hashes, sorted, as differences; the largest number that fits means
"add this and read on". 3-shingles have 16-bit differences: with 4 096 to 8 192 places each, a foreign one is taken
for known once in 4 096 times or less. 5-shingles have 8-bit ones (once in 64 or less), and count only when
their three 3-shingles are known too, so that both together are as sure.
Texts of one or two tokens cannot be judged and count as new.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millgate.errors import InputError
from millgate.text.coverage import (
    SHINGLE,
    SHINGLE_SIZES,
    SHORT_SHINGLE,
    Shares,
    WindowIndex,
    by_shingles,
)
from millgate.text.hashes import U64, Tokens, shingle_hashes, within
from millgate.text.words import Bools

_MAX_BITS = 40
Coded = NDArray[np.uint8 | np.uint16]


@dataclass(frozen=True, slots=True, eq=False)
class SortedHashes:
    """Hashes cut to their top `bits` bits, sorted, as differences."""

    coded: Coded
    bits: int

    @classmethod
    def of(cls, hashes: U64, *, width: int) -> "SortedHashes":
        """Of hashes, cut and sorted.

        A quarter to a half of the largest difference is the mean one: few overflow.
        """
        places = np.unique(hashes)
        bits = places.size.bit_length() + 8 * width - (2 if width == 1 else 4)
        places >>= np.uint64(64 - bits)
        steps = np.diff(np.unique(places), prepend=np.uint64(0)).view(np.int64)
        return cls(_encode(steps, width), bits)

    def contains(self, hashes: U64) -> Bools:
        """Which of the hashes fall on a known place."""
        return within(_decode(self.coded), hashes >> np.uint64(64 - self.bits))

    def to_json(self) -> dict[str, Any]:
        """As bits, count, and the differences in base64."""
        count = int(np.count_nonzero(self.coded != _full(self.coded)))
        return {
            "bits": self.bits,
            "count": count,
            "data": b64encode(self.coded.tobytes()).decode("ascii"),
        }

    @classmethod
    def from_json(cls, value: object, *, width: int) -> "SortedHashes":
        """From what `to_json` gave; anything else is an InputError."""
        if not isinstance(value, Mapping):
            raise _sketch_error("threes and fives must be objects with bits, count and data")
        bits, count, data = value.get("bits"), value.get("count"), value.get("data")
        if not isinstance(bits, int) or not 1 <= bits <= _MAX_BITS:
            raise _sketch_error(f"bits is {bits!r}; allowed are 1 to {_MAX_BITS}")
        try:
            coded = np.frombuffer(b64decode(data or "", validate=True), dtype=f"<u{width}")
        except (TypeError, ValueError, binascii.Error):
            raise _sketch_error(f"data is not base64 of {8 * width}-bit numbers") from None
        values = _decode(coded)
        if values.size != count:
            raise _sketch_error(f"count is {count!r}, but data holds {values.size}")
        if values.size and (int(values[-1]) >> bits or (np.diff(values) == 0).any()):
            raise _sketch_error(f"data does not rise within {bits} bits")
        return cls(coded, bits)


def _full(coded: Coded) -> int:
    """The number that means: add this and read on."""
    return int(np.iinfo(coded.dtype).max)


def _encode(steps: NDArray[np.int64], width: int) -> Coded:
    full = 256**width - 1
    ends = np.cumsum(steps // full + 1) - 1
    coded: Coded = np.full(int(ends[-1]) + 1 if ends.size else 0, full, dtype=f"<u{width}")
    coded[ends] = steps % full
    return coded


def _decode(coded: Coded) -> U64:
    """The places, sorted."""
    values: U64 = np.cumsum(coded, dtype=np.uint64)[coded != _full(coded)]
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The window's 3-shingles and 5-shingles, cut short."""

    threes: SortedHashes
    fives: SortedHashes

    @classmethod
    def of(cls, index: WindowIndex) -> "Sketch":
        """Of a window whose text is known."""
        # one after the other, and not by the index, which would keep both
        threes = SortedHashes.of(shingle_hashes(index.tokens, SHORT_SHINGLE), width=2)
        return cls(threes, SortedHashes.of(shingle_hashes(index.tokens, SHINGLE), width=1))

    def overlap(self, tokens: Tokens) -> Shares:
        """For each text, the share of its tokens that the window contains, 0..1, as near as a sketch can tell."""
        return by_shingles(tokens, self._hits, sizes=SHINGLE_SIZES[:2])

    def _hits(self, tokens: Tokens, size: int) -> Bools:
        threes = self.threes.contains(tokens.shingles(SHORT_SHINGLE))
        if size == SHORT_SHINGLE:
            return threes
        chained = threes[:-2] & threes[1:-1] & threes[2:]
        return chained & self.fives.contains(tokens.shingles(SHINGLE))

    def to_json(self) -> dict[str, Any]:
        """As plain values: the threes and the fives."""
        return {"threes": self.threes.to_json(), "fives": self.fives.to_json()}

    @classmethod
    def from_json(cls, value: object) -> "Sketch":
        """From what `to_json` gave; anything else is an InputError."""
        if not isinstance(value, Mapping):
            raise _sketch_error("it must be an object with threes and fives")
        return cls(
            SortedHashes.from_json(value.get("threes"), width=2),
            SortedHashes.from_json(value.get("fives"), width=1),
        )


def _sketch_error(what: str) -> InputError:
    return InputError(
        f"the window fingerprint's sketch cannot be read: {what}",
        hint="leave 'sketch' out, or send it as WindowFingerprint.to_json gave it",
    )
