"""Coverage: which share of a text's tokens stands in the window word for word.

A token is covered when it lies inside a shingle that the window contains; shingles have 5 tokens, 3 in texts
under 20 tokens, and all of them in texts under 3. Verbatim copies score 1.0 wherever they stand; a changed
token costs itself and, at worst, the few tokens between two changes.
Membership is exact: a sorted array of the window's shingle hashes, entered through a table of their top bits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from millgate.text.hashes import U32, U64, Tokens, shingle_hashes
from millgate.text.words import Bools, Ints

SHINGLE = 5
SHORT_SHINGLE = 3  # for texts of fewer than SHORT_TEXT tokens
SHORT_TEXT = 20
_LAST = np.uint64(2**64 - 1)  # ends every search
# Hashes with the same top bits that are searched in steps: chance makes 8, only malice makes more.
_DEEP = 24

_LARGE_SET = 1 << 18  # keys from which the table has half as many buckets

_ANY = 1 << 62

Shares = NDArray[np.float64]
Sizes = tuple[tuple[int, int, int], ...]  # shingle size, for texts of at least, and of fewer than
SHINGLE_SIZES: Sizes = (
    (SHINGLE, SHORT_TEXT, _ANY),
    (SHORT_SHINGLE, 3, SHORT_TEXT),
    (2, 2, 3),
    (1, 1, 2),
)


def shingle_size(count: int) -> int:
    """Tokens in one shingle of a text of `count` tokens."""
    return next((size for size, low, high in SHINGLE_SIZES if low <= count < high), 1)


@dataclass(frozen=True, slots=True, eq=False)
class HashSet:
    """Sorted distinct 64-bit hashes with a table from their top bits to the first that has them."""

    keys: U64
    first: NDArray[np.int32]
    shift: np.uint64
    deep: bool

    @classmethod
    def of(cls, hashes: U64) -> "HashSet":
        """A set of these hashes."""
        ordered = np.sort(hashes)
        fresh = np.ones(ordered.size, dtype=bool)
        np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
        return cls.of_sorted(ordered[fresh])

    @classmethod
    def of_sorted(cls, keys: U64) -> "HashSet":
        """A set of hashes that are sorted and distinct."""
        # four to eight buckets a key; in a large set half as many, since the memory costs more than the time saved
        bits = max(4, ((4 if keys.size < _LARGE_SET else 2) * keys.size).bit_length())
        shift = np.uint64(64 - bits)
        tops = (keys >> shift).view(np.int64)
        # an empty bucket leads to the end mark
        first = np.full(1 << bits, keys.size, dtype=np.int32)
        # the last written stays
        first[tops[::-1]] = np.arange(keys.size - 1, -1, -1, dtype=np.int32)
        deep = bool((tops[_DEEP:] == tops[:-_DEEP]).any())
        return cls(np.append(keys, _LAST), first, shift, deep)

    @property
    def distinct(self) -> U64:
        """The hashes without the end mark."""
        return self.keys[:-1]

    def contains(self, hashes: U64) -> Bools:
        """Which of the hashes are in the set."""
        if self.deep:
            return np.asarray(self.keys.take(np.searchsorted(self.keys, hashes)) == hashes)
        place = self.first.take((hashes >> self.shift).view(np.int64)).astype(np.int64)
        key = self.keys.take(place)
        found = key == hashes
        rest = np.flatnonzero(key < hashes)  # keys rise: only these may stand further on
        while rest.size:
            place[rest] += 1
            key, sought = self.keys.take(place[rest]), hashes[rest]
            found[rest] = key == sought
            rest = rest[key < sought]
        return np.asarray(found)


@dataclass(frozen=True, slots=True, eq=False)
class WindowIndex:
    """What the model already sees, ready to measure how much of any text is in it."""

    tokens: U32
    _sets: dict[int, HashSet] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Sequence[str]) -> "WindowIndex":
        """Index the window's texts as one running text."""
        return cls(Tokens.of(texts).values)

    def coverage(self, texts: Sequence[str]) -> Shares:
        """For each text, the share of its tokens that the window contains, 0..1."""
        return self.overlap(Tokens.of(texts))

    def overlap(self, tokens: Tokens) -> Shares:
        """As `coverage`, of texts that are read already."""
        return by_shingles(tokens, self._hits)

    def _hits(self, tokens: Tokens, size: int) -> Bools:
        return self.shingles(size).contains(tokens.shingles(size))

    def shingles(self, size: int) -> HashSet:
        """The window's shingles of that size, made when first asked for."""
        if size not in self._sets:
            self._sets[size] = HashSet.of(shingle_hashes(self.tokens, size))
        return self._sets[size]


def by_shingles(
    tokens: Tokens, hits: Callable[[Tokens, int], Bools], sizes: Sizes = SHINGLE_SIZES
) -> Shares:
    """Share of covered tokens of each text, where hits(tokens, size) says which shingles are known."""
    counts = tokens.counts
    shares = np.zeros(counts.size)
    for size, low, high in sizes:
        chosen = (counts >= low) & (counts < high)
        if not chosen.any():
            continue
        if (
            size == SHINGLE
        ):  # most texts have so many tokens, and the shingles of all serve others too
            shares[chosen] = _shares(tokens, size, hits)[chosen]
        else:
            parts = [
                tokens.values[tokens.bounds[i] : tokens.bounds[i + 1]]
                for i in np.flatnonzero(chosen)
            ]
            shares[chosen] = _shares(Tokens.join(parts), size, hits)
    return shares


def _shares(tokens: Tokens, size: int, hits: Callable[[Tokens, int], Bools]) -> Shares:
    """The covered share of each text; at least one of the texts has `size` tokens."""
    at, text = _in_one_text(tokens, np.flatnonzero(hits(tokens, size)), size)
    return covered_shares(at, text, tokens.counts, size)


def _in_one_text(tokens: Tokens, at: Ints, size: int) -> tuple[Ints, Ints]:
    """Of the shingles that begin there those that do not reach across two texts, and the text of each."""
    text: Ints = np.searchsorted(tokens.bounds, at, side="right") - 1
    whole = at + size <= tokens.bounds[text + 1]
    return at[whole], text[whole]


def covered_shares(at: Ints, text: Ints, counts: Ints, size: int = SHINGLE) -> Shares:
    """Share of the tokens of each text that lie in the shingles which begin at these places, in these texts."""
    # a shingle covers its tokens up to where the next one begins
    covered = np.minimum(np.diff(at, append=_ANY), size)
    return np.asarray(np.bincount(text, covered, counts.size) / np.maximum(counts, 1))


def copies(tokens: Tokens, order: Iterable[int]) -> dict[int, int]:
    """Which texts have the very words of one that stands before them in that order: copy -> first."""
    first: dict[bytes, int] = {}
    data, cuts = tokens.values.tobytes(), (tokens.values.itemsize * tokens.bounds).tolist()
    found: dict[int, int] = {}
    for i in order:
        words = data[cuts[i] : cuts[i + 1]]
        if words and first.setdefault(words, i) != i:  # a text without words is not a copy
            found[i] = first[words]
    return found


def near_copies(tokens: Tokens, order: Sequence[int], *, least: float) -> dict[int, int]:
    """Which texts are, by at least that share of their tokens, in those before them: copy -> the one with most of it.

    Texts under SHORT_TEXT tokens are left alone: in them a phrase that many share is soon most of the text.
    """
    sizes, cuts = tokens.counts.tolist(), tokens.bounds.tolist()
    chosen = [i for i in order if sizes[i] >= SHORT_TEXT]
    if len(chosen) < 2:
        return {}
    some = tokens
    if chosen != [*range(len(sizes))]:
        some = Tokens.join([tokens.values[cuts[i] : cuts[i + 1]] for i in chosen])
    shingles, counts = some.shingles(SHINGLE), some.counts
    at, owner = _in_one_text(some, _find_shared(shingles), SHINGLE)
    if not (covered_shares(at, owner, counts) >= least).any():
        return {}
    groups = np.unique(shingles[at], return_inverse=True)[1]
    # the text in which each of these stands first
    first = np.full(len(at), len(chosen))
    np.minimum.at(first, groups, owner)
    first = first[groups]
    late = first < owner
    shares = covered_shares(at[late], owner[late], counts)
    return {
        chosen[i]: chosen[int(np.bincount(first[late & (owner == i)]).argmax())]
        for i in np.flatnonzero((shares >= least) & (shares > 0)).tolist()
    }


def _find_shared(hashes: U64) -> Ints:
    """Where shingles stand that may stand in several places, by their first 32 bits: few, and only they are sorted."""
    found: Ints = np.flatnonzero(_repeats(hashes >> np.uint64(48)))
    return found[_repeats(hashes[found] >> np.uint64(32) & np.uint64(0xFFFF))]


def _repeats(values: U64) -> Bools:
    """Which of some numbers of 16 bits stand there more than once."""
    places = values.view(np.int64)
    repeated: Bools = np.bincount(places, minlength=1 << 16)[places] > 1
    return repeated
