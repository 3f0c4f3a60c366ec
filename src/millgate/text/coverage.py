"""Coverage: which share of a text's tokens stands in the window word for word.

A token is covered when it lies inside a shingle that the window contains; shingles have 5 tokens, 3 in texts
under 20 tokens, and all of them in texts under 3. Verbatim copies score 1.0 wherever they stand; a changed
token costs itself and, at worst, the few tokens between two changes.
Membership is exact: it is looked up in the sorted hashes of the window's shingles.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from millgate.text.hashes import U32, U64, Tokens, shingle_hashes, within
from millgate.text.words import Bools, Ints

SHINGLE = 5
SHORT_SHINGLE = 3  # for texts of fewer than SHORT_TEXT tokens
SHORT_TEXT = 20
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
class WindowIndex:
    """What the model already sees, ready to measure how much of any text is in it."""

    tokens: U32
    _shingles: dict[int, U64] = field(default_factory=dict)

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
        return within(self.shingles(size), tokens.shingles(size))

    def shingles(self, size: int) -> U64:
        """The window's shingles of that size, sorted, made when first asked for."""
        if size not in self._shingles:
            self._shingles[size] = np.sort(shingle_hashes(self.tokens, size))
        return self._shingles[size]


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
