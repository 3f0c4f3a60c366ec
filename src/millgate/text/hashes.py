"""Hashes: the tokens of many texts at once, as numbers.

All texts are joined, their token bounds found by character class, and each token hashed from its UTF-8 bytes,
eight at a time: no Python work per token. A shingle of n tokens is Σ kⱼ·tⱼ (mod 2^64) with odd constants kⱼ.
Everything later (coverage, SimHash, MinHash, sketches) is made from these token hashes, so they are what is
stored. The constants are literals and the arithmetic is unsigned 64-bit: equal on every machine.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millgate.text.words import BREAKS, MAX_RUN, MAX_UNCUT, SINGLES, fold, fold_pieces

U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Odd 64-bit constants: the first digits of well-known mixers and of sqrt(2), sqrt(3), sqrt(5), sqrt(7), sqrt(11).
_LENGTH = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_NONE, _ONE = np.uint64(0), np.uint64(1)
_PLACES = np.array(
    [0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1, 0x510E527FADE682D1],
    dtype=np.uint64,
)  # fmt: skip

_BREAK, _LETTER, _DIGIT, _SINGLE, _SIGN, _POINT, _PERCENT, _BAR = range(8)
_ASCII = (
    ("abcdefghijklmnopqrstuvwxyz", _LETTER),  # of folded text
    ("0123456789", _DIGIT),
    ("+-$", _SIGN),
    (".,", _POINT),
    ("%", _PERCENT),
    ("_", _BAR),
)
PIECE = 125_000  # characters read at a time
_LOOK = 4096  # characters among which a place to cut is looked for
_RUN = 1 << 17  # shingles hashed at a time: three arrays of the whole would be held
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
        """Read all texts at once."""
        return _read(texts)

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


def shingle_hashes(tokens: U32, size: int) -> U64:
    """The hash of every run of `size` (1 to 5) neighboring tokens; none when there are fewer."""
    count = tokens.size - size + 1
    if count <= 0:
        return np.zeros(0, np.uint64)
    hashes = np.empty(count, np.uint64)
    for at in range(0, count, _RUN):
        total = hashes[at : at + _RUN]
        wide = tokens[at : at + total.size + size - 1].astype(np.uint64)
        np.multiply(wide[: total.size], _PLACES[0], out=total)
        for place in range(1, size):
            total += wide[place : place + total.size] * _PLACES[place]
    return hashes


def _read(texts: Sequence[str]) -> Tokens:
    """In pieces if there is much to read: the arrays on the way take twenty times the memory of the text."""
    if sum(map(len, texts)) <= 2 * PIECE:
        folded = [fold(text) for text in texts]
        if sum(map(len, folded)) <= 2 * PIECE:  # one character may have become eighteen
            return _read_folded(folded)
    owners: list[int] = []  # of each piece: which text it belongs to

    def pieces() -> Iterator[str]:
        for owner, text in enumerate(texts):
            # most texts are one piece
            for folded in (fold(text),) if len(text) <= PIECE else fold_pieces(text, PIECE):
                for piece in _pieces(folded):
                    owners.append(owner)
                    yield piece

    values: list[U32] = []
    counts: list[Ints] = []
    for batch in _batches(pieces()):
        part = _read_folded(batch)
        values.append(part.values)
        counts.append(part.counts)
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, np.concatenate(counts), len(texts)), out=bounds[1:])
    return Tokens(_move_together(values), bounds)


def _move_together(parts: list[U32]) -> U32:
    """All parts in one array. Each is let go once it is copied, so that no token is held twice for long."""
    whole, end = np.empty(sum(part.size for part in parts), np.uint32), 0
    parts.reverse()
    while parts:
        part = parts.pop()
        whole[end : end + part.size] = part
        end += part.size
    return whole


def _pieces(text: str) -> Iterator[str]:
    """A folded text in pieces, at least one; each is cut where no token goes across."""
    start = 0
    while len(text) - start > PIECE:
        end = _seam(text, start + PIECE)
        yield text[start:end]
        start = end
    yield text[start:]


def _seam(text: str, at: int) -> int:
    """Where a text can be cut from `at` on; inside a word if that word is too long."""
    last = min(len(text), at + MAX_UNCUT)
    for begin in range(at, last, _LOOK):
        look = text[begin : begin + _LOOK].encode("utf-32-le", "surrogatepass")
        kinds = _classes()[np.frombuffer(look, dtype="<u4")]
        found = np.flatnonzero((kinds == _BREAK) | (kinds == _SINGLE))
        if found.size:
            return begin + int(found[0]) + 1
    return last


def _batches(pieces: Iterable[str]) -> Iterator[list[str]]:
    batch, size = list[str](), 0
    for piece in pieces:
        if batch and size + len(piece) > 2 * PIECE:
            yield batch
            batch, size = [], 0
        batch.append(piece)
        size += len(piece)
    yield batch


def _read_folded(folded: Sequence[str]) -> Tokens:
    """Texts of ASCII apart from the others: their bytes are their characters, which is three times faster."""
    plain = np.array([text.isascii() for text in folded], bool)
    if plain.all() or not plain.any():
        return _read_joined(folded)
    parts = [_read_joined(list(compress(folded, which))) for which in (plain, ~plain)]
    begins = np.concatenate([parts[0].bounds[:-1], parts[1].bounds[:-1] + parts[0].values.size])
    counts = np.concatenate([part.counts for part in parts])
    back = np.argsort(np.concatenate([np.flatnonzero(plain), np.flatnonzero(~plain)]))
    begins, counts = begins[back], counts[back]
    bounds = np.zeros(len(folded) + 1, dtype=np.int64)
    np.cumsum(counts, out=bounds[1:])
    where = np.repeat(begins - bounds[:-1], counts) + np.arange(bounds[-1])
    return Tokens(np.concatenate([part.values for part in parts])[where], bounds)


def _read_joined(folded: Sequence[str]) -> Tokens:
    joined = "\n".join(folded)
    ends = np.cumsum([len(text) + 1 for text in folded], dtype=np.int64)
    bounds = np.zeros(len(folded) + 1, dtype=np.int64)
    raw = joined.encode("utf-8", "surrogatepass")
    if joined.isascii():
        starts, stops = _bounds(np.frombuffer(raw.translate(_ascii_classes()), dtype=np.uint8))
        bounds[1:] = np.searchsorted(starts, ends)
    else:
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        starts, stops = _bounds(_classes()[codes])
        bounds[1:] = np.searchsorted(starts, ends)
        places = np.zeros(codes.size + 1, dtype=np.int64)  # where each character starts, in bytes
        np.cumsum(_widths(codes), out=places[1:])
        starts, stops = places[starts], places[stops]
    hashes = hash_slices(raw, starts, stops - starts)
    return Tokens((hashes >> np.uint64(32)).astype(np.uint32), bounds)


def _widths(codes: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes that each code point takes in UTF-8."""
    return np.uint8(1) + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)


@cache
def _classes() -> NDArray[np.uint8]:
    """The class of every code point."""
    table = np.full(0x110000, _LETTER, dtype=np.uint8)
    table[:0x80] = _BREAK
    for characters, kind in _ASCII:
        table[[ord(character) for character in characters]] = kind
    for ranges, kind in ((BREAKS, _BREAK), (SINGLES, _SINGLE)):
        for low, high in ranges:
            table[low : high + 1] = kind
    return table


@cache
def _ascii_classes() -> bytes:
    """The classes of ASCII, as a table for `bytes.translate`."""
    return _classes()[:256].tobytes()


def _bounds(kinds: NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """Where tokens start and stop, in characters, by the same rules as `words.tokens`."""
    edged = np.zeros(kinds.size + 2, dtype=np.uint8)
    edged[1:-1] = kinds
    inside = (edged > _BREAK) & (edged < _SIGN)
    rare = np.flatnonzero(edged >= _SIGN)
    inside[rare] = _joins(edged[rare - 1], edged[rare], edged[rare + 1])
    single = edged == _SINGLE
    fresh = inside[1:] != inside[:-1]
    if not single.any():
        edges = np.flatnonzero(fresh)
        return _cut_long(edges[::2], edges[1::2])
    fresh |= single[1:] | single[:-1]
    return _cut_long(np.flatnonzero(fresh & inside[1:]), np.flatnonzero(fresh & inside[:-1]))


def _joins(before: NDArray[np.uint8], kind: NDArray[np.uint8], after: NDArray[np.uint8]) -> Bools:
    """Whether a sign, point, percent or bar belongs to the token it touches."""
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
    cut = np.repeat(starts, pieces) + MAX_RUN * (np.arange(first.size) - first)
    return cut, np.minimum(cut + MAX_RUN, np.repeat(stops, pieces))


def hash_slices(
    raw: bytes, starts: Ints, lengths: Ints, *, seed: np.uint64 = _NONE, times: np.uint64 = _ONE
) -> U64:
    """A hash for each slice of the bytes; without knowing `seed` and `times`, no author can make two collide."""
    words = np.frombuffer(raw + bytes(16 - len(raw) % 8), dtype="<u8").astype(np.uint64, copy=False)
    hashes = np.empty(starts.size, dtype=np.uint64)
    for begin in range(0, starts.size, _SLAB):
        part = slice(begin, begin + _SLAB)
        total = lengths[part].astype(np.uint64) * _LENGTH ^ seed
        hashes[part] = mix(total ^ _load(words, starts[part], lengths[part]) * times)
    at, more = 8, np.flatnonzero(lengths > 8)
    while more.size:
        left = lengths[more] - at
        hashes[more] = mix(hashes[more] ^ _load(words, starts[more] + at, left) * times)
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
