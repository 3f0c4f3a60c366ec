"""PostingList: which keys occur in which chunks, both ways.

Forward: each chunk's keys as term ids into the sorted vocabulary, in reading order.
Inverted: each key's chunks, ascending, with its counts by field (ranking/fields.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millgate.index.arrays import Ints, Keys, find, offsets, ranges
from millgate.protocols import Postings
from millgate.ranking.arrays import distinct, firsts, number_keys
from millgate.ranking.fields import pack


@dataclass(frozen=True, slots=True)
class PostingList:
    """Keys by chunk and chunks by key."""

    keys: Keys
    starts: Ints
    ords: npt.NDArray[np.uint32]
    values: npt.NDArray[np.uint16]
    own_starts: Ints
    own: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, keys: Keys, which: Ints, cells: Ints, chunks: int) -> "PostingList":
        """From what stands in chunks, in reading order: which of some keys, and its cell, 4 times the chunk plus the
        field.
        """
        used = np.bincount(which, minlength=len(keys)) > 0
        vocabulary, places = number_keys(keys[used])
        own = places[(used.cumsum() - 1)[which]]
        # word, chunk and field as one number: sorting numbers is several times faster than ranking them
        bits = chunks.bit_length()
        pairs = own << bits + 2
        pairs |= cells
        pairs.sort()
        fields = pairs & 3
        pairs >>= 2
        first = firsts(pairs)
        counts = np.bincount(4 * (first.cumsum() - 1) + fields, minlength=4 * int(first.sum()))
        pairs = pairs[first]
        return cls(
            vocabulary,
            offsets(np.bincount(pairs >> bits, minlength=len(vocabulary))),
            (pairs & (1 << bits) - 1).astype(np.uint32),
            pack(*counts.reshape(-1, 4).T),
            offsets(np.bincount(cells >> 2, minlength=chunks)),
            own.astype(np.uint32),
        )


class Frequencies:
    """In how many living chunks each key occurs, counted when it is asked: there may be millions."""

    def __init__(self, part: PostingList, dead: Ints) -> None:
        self._starts, self.total = part.starts, len(part.ords)
        self._gone: Ints | None = None
        if len(dead):
            own, lengths = own_term_ids(part, dead)
            pairs = np.repeat(dead, lengths) * len(part.keys) + own
            self._gone = np.bincount(distinct(pairs) % len(part.keys), minlength=len(part.keys))
            self.total -= int(self._gone.sum())

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, term_ids: Ints) -> Ints:
        counts = self._starts[term_ids + 1] - self._starts[term_ids]
        return counts if self._gone is None else counts - self._gone[term_ids]

    def first(self, end: int) -> Ints:
        """Those of the first keys."""
        counts = np.diff(self._starts[: end + 1])
        return counts if self._gone is None else counts - self._gone[:end]


def copy_lists(parts: Sequence[PostingList], term_ids: Ints, bases: Ints) -> Postings:
    """The lists of some keys, key by key, given their term ids in each part, below 0 if it has none.

    A part's ordinals begin at its base.
    """
    begins, lengths = np.zeros((2, *term_ids.shape), np.int64)
    for part, row, begin, length in zip(parts, term_ids, begins, lengths, strict=True):
        begin[:] = part.starts[row]
        length[:] = part.starts[row + 1] - begin
    lengths[term_ids < 0] = 0
    which, where = lengths.T.nonzero()
    begins, counts = begins[where, which], lengths[where, which]
    spans = [*zip(where.tolist(), begins.tolist(), (begins + counts).tolist(), strict=True)]
    if not spans:
        none = np.zeros(0, np.int64)
        return Postings(none, none.astype(np.uint16), np.zeros(term_ids.shape[1], np.int64))
    ords = np.concatenate([parts[n].ords[begin:end] for n, begin, end in spans], dtype=np.int64)
    ords += bases[where].repeat(counts)
    values = np.concatenate([parts[n].values[begin:end] for n, begin, end in spans])
    return Postings(ords, values, lengths.sum(0))


def total_counts(counts: Sequence[Frequencies], term_ids: Ints) -> Ints:
    """The counts of some keys in all segments together, given their term ids."""
    total = np.zeros(term_ids.shape[1], np.int64)
    for mine, row in zip(counts, term_ids, strict=True):
        if len(mine):
            total += np.where(row >= 0, mine[row], 0)
    return total


def own_term_ids(part: PostingList, local: Ints) -> tuple[npt.NDArray[np.uint32], Ints]:
    """The keys of some chunks as term ids, one chunk after the other, and how many each has."""
    starts = part.own_starts[local]
    counts = part.own_starts[local + 1] - starts
    return part.own[ranges(starts, counts)], counts


def locate_term_ids(own: npt.NDArray[np.uint32], term_ids: Ints) -> tuple[Ints, Ints]:
    """Which of some words are one of the term ids, and which one; an id below 0 is none."""
    order = term_ids.argsort()
    order = order[term_ids[order] >= 0]
    which, there = find(term_ids[order].astype(np.uint32), own)
    return there.nonzero()[0], order[which[there]]


def find_term_ids(vocabularies: Sequence[Keys], keys: Keys) -> Ints:
    """The id of each key in each vocabulary (vocabulary × key), -1 if it has none."""
    order = keys.argsort()  # in order, a search of a large vocabulary reads less memory
    found = np.full((len(vocabularies), len(keys)), -1)
    for row, vocabulary in zip(found, vocabularies, strict=True):
        at, there = find(vocabulary, keys[order])
        row[order[there]] = at[there]
    return found
