"""Hashes: the tokens of many texts at once, as numbers.

All texts are joined, their token bounds found by character class, and each token hashed from its UTF-8 bytes,
eight at a time: no Python work per token. A shingle of n tokens is Σ kⱼ·tⱼ (mod 2^64) with odd constants kⱼ.
Everything later (coverage, SimHash, MinHash, sketches) is made from these token hashes, so they are what is
stored. The constants are literals and the arithmetic is unsigned 64-bit: equal on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from millgate.text.words import Ints, cut, find_tokens, fold

U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]

# Odd 64-bit constants: the first digits of well-known mixers and of sqrt(2), sqrt(3), sqrt(5), sqrt(7), sqrt(11).
_LENGTH = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_PLACES = np.array(
    [0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1, 0x510E527FADE682D1],
    dtype=np.uint64,
)  # fmt: skip

PIECE = 125_000  # characters read at a time
_SLAB = 8192  # tokens hashed at a time: their numbers stay in the processor's cache
_KEEP_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The token hashes of several texts, end to end: text i is values[bounds[i]:bounds[i + 1]]."""

    values: U32
    bounds: Ints
    _shingles: dict[int, U64] = field(default_factory=dict, init=False, repr=False)

    @property
    def counts(self) -> Ints:
        """How many tokens each text has."""
        return np.diff(self.bounds)

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Tokens":
        """Read texts together, in pieces: the arrays on the way take twenty times the memory of what is read."""
        owners, pieces = list[int](), list[str]()
        for owner, text in enumerate(texts):
            for piece in cut(fold(text), PIECE):
                owners.append(owner)
                pieces.append(piece)
        begins = [*accumulate(map(len, pieces), initial=0)]

        def batch(at: int) -> tuple[bool, int]:
            # ASCII apart from the others: its bytes are its characters, which is three times faster
            return pieces[at].isascii(), begins[at] // PIECE

        parts = [np.zeros(0, np.uint32)] * len(pieces)
        for _, some in groupby(sorted(range(len(pieces)), key=batch), key=batch):
            which = list(some)
            read = _read_together([pieces[at] for at in which])
            for at, part in zip(which, read, strict=True):
                parts[at] = part
        bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.bincount(owners, [part.size for part in parts], len(texts)), out=bounds[1:])
        return cls(np.concatenate([np.zeros(0, np.uint32), *parts]), bounds)

    @classmethod
    def join(cls, parts: Sequence[U32]) -> "Tokens":
        """From the hashes of single texts."""
        bounds = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([part.size for part in parts], out=bounds[1:])
        return cls(np.concatenate(parts) if parts else np.zeros(0, np.uint32), bounds)

    def shingles(self, size: int) -> U64:
        """The hashes of all shingles of that size, those across two texts included; made once."""
        if size not in self._shingles:
            self._shingles[size] = shingle_hashes(self.values, size)
        return self._shingles[size]

    def split(self) -> list[U32]:
        """The hashes of each text, each in memory of its own."""
        cuts = self.bounds.tolist()
        return [self.values[a:b].copy() for a, b in pairwise(cuts)]


def mix(x: U64) -> U64:
    """Spread every bit over all 64 (the finisher of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def within(keys: NDArray[np.integer], found: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which of the found keys are among the sorted ones; for short arrays far faster than np.isin."""
    if not len(keys):
        return np.zeros(len(found), bool)
    return np.asarray(keys[np.minimum(keys.searchsorted(found), len(keys) - 1)] == found)


def shingle_hashes(tokens: U32, size: int) -> U64:
    """The hash of every run of `size` (1 to 5) neighboring tokens; none when there are fewer."""
    count = tokens.size - size + 1
    if count <= 0:
        return np.zeros(0, np.uint64)
    wide = tokens.astype(np.uint64)
    hashes: U64 = wide[:count] * _PLACES[0]
    for place in range(1, size):
        hashes += wide[place : place + count] * _PLACES[place]
    return hashes


def _read_together(folded: Sequence[str]) -> list[U32]:
    joined = "\n".join(folded)
    starts, stops = find_tokens(joined)
    ends = np.cumsum([len(text) + 1 for text in folded], dtype=np.int64)
    bounds = [0, *np.searchsorted(starts, ends).tolist()]
    if not joined.isascii():
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
        places = np.zeros(
            codes.size + 1, np.int64
        )  # where each character starts, in bytes of UTF-8
        widths = np.uint8(1) + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
        np.cumsum(widths, out=places[1:])
        starts, stops = places[starts], places[stops]
    hashes = hash_slices(joined.encode("utf-8", "surrogatepass"), starts, stops - starts)
    values = (hashes >> np.uint64(32)).astype(np.uint32)
    return [values[a:b] for a, b in pairwise(bounds)]


def hash_slices(raw: bytes, starts: Ints, lengths: Ints) -> U64:
    """A hash for each slice of the bytes."""
    words = np.frombuffer(raw + bytes(16 - len(raw) % 8), dtype="<u8").astype(np.uint64, copy=False)
    hashes = np.empty(starts.size, dtype=np.uint64)
    for begin in range(0, starts.size, _SLAB):
        part = slice(begin, begin + _SLAB)
        total = lengths[part].astype(np.uint64) * _LENGTH
        hashes[part] = mix(total ^ _load(words, starts[part], lengths[part]))
    at, more = 8, np.flatnonzero(lengths > 8)
    while more.size:
        left = lengths[more] - at
        hashes[more] = mix(hashes[more] ^ _load(words, starts[more] + at, left))
        at, more = at + 8, more[left > 8]
    return hashes


def _load(words: U64, at: Ints, lengths: Ints) -> U64:
    """The next (at most) 8 bytes from each place, as a little-endian number."""
    index = at >> 3
    shift = ((at & 7) << 3).astype(np.uint64)
    low = words[index] >> shift
    high = (words[index + 1] << np.uint64(1)) << (np.uint64(63) - shift)
    loaded: U64 = (low | high) & _KEEP_BYTES[np.minimum(lengths, 8)]
    return loaded
