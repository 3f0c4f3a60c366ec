"""PostingList: which keys occur in which chunks, both ways.

Forward: each chunk's keys as slots into the sorted vocabulary, in reading order.
Inverted: each key's chunks, ascending, with a packed value (counts by field, or flags).
Building sorts once; merging is linear in the postings, since ordinals only shift.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.index.arrays import Ints, Keys, find, offsets, ranges, union
from headgate.protocols import Hits
from headgate.rank.lexical import distinct

Alive = npt.NDArray[np.bool_]

_AT_ONCE = 1 << 18  # postings that are moved together when lists are merged: some 10 MB on the way
_FEW_TERMS = 24  # terms up to which comparing with each is faster than looking each word up


@dataclass(frozen=True, slots=True)
class PostingList:
    """Keys by chunk and chunks by key."""

    keys: Keys
    starts: Ints
    ords: npt.NDArray[np.uint32]
    values: npt.NDArray[np.uint16]
    own_starts: Ints
    own: npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Counts:
    """Keys by chunk, and how often each key occurs in all chunks."""

    keys: Keys
    counts: Ints
    own_starts: Ints
    own: npt.NDArray[np.uint32]


def to_slots(flat: Keys) -> tuple[Keys, npt.NDArray[np.uint32]]:
    """The sorted vocabulary of a flat list of keys, and the list as slots into it."""
    keys, slots = np.unique(flat, return_inverse=True)
    return keys, slots.astype(np.uint32)


def living_counts(part: Counts, dead: Ints) -> Ints:
    """The counts without what dead chunks contributed."""
    return part.counts - _dead_counts(part.own_starts, part.own, dead, len(part.keys))


def _dead_counts(own_starts: Ints, own: npt.NDArray[np.uint32], dead: Ints, size: int) -> Ints:
    starts = own_starts[dead]
    return np.bincount(own[ranges(starts, own_starts[dead + 1] - starts)], minlength=size)


def frequencies(part: PostingList, dead: Ints) -> Ints:
    """In how many living chunks each key occurs."""
    counts = np.diff(part.starts)
    if not len(dead):
        return counts
    starts = part.own_starts[dead]
    lengths = part.own_starts[dead + 1] - starts
    pairs = np.repeat(dead, lengths) * len(part.keys) + part.own[ranges(starts, lengths)]
    once = distinct(pairs) % len(part.keys)
    return counts - np.bincount(once, minlength=len(part.keys))


def _living_own(part: PostingList | Counts, alive: Alive) -> tuple[Ints, npt.NDArray[np.uint32]]:
    """The living chunks' own lists, end to end, and their lengths."""
    lengths = np.diff(part.own_starts)
    if alive.all():
        return lengths, part.own
    lengths = lengths[alive]
    return lengths, part.own[ranges(part.own_starts[:-1][alive], lengths)]


def merge_counts(parts: Sequence[tuple[Counts, Alive]]) -> Counts:
    """The counts of all living chunks together."""
    kept = [(part.keys, *_living_own(part, alive)) for part, alive in parts]
    keys = union([part_keys for part_keys, _, _ in kept])
    own = np.concatenate(
        [
            np.searchsorted(keys, part_keys).astype(np.uint32)[part_own]
            for part_keys, _, part_own in kept
        ]
    )
    counts = np.bincount(own, minlength=len(keys))
    keys, own, counts = _drop_unused(keys, own, counts)
    return Counts(keys, counts, offsets(np.concatenate([n for _, n, _ in kept])), own)


def _drop_unused(
    keys: Keys, own: npt.NDArray[np.uint32], counts: Ints
) -> tuple[Keys, npt.NDArray[np.uint32], Ints]:
    used = counts > 0
    if used.all():
        return keys, own, counts
    renumber = (np.cumsum(used) - 1).astype(np.uint32)
    return keys[used], renumber[own], counts[used]


def merge(parts: Sequence[tuple[PostingList, Alive]]) -> PostingList:
    """One posting list of all living chunks; ordinals run through the parts in their order."""
    living = [_living_lists(part, alive) for part, alive in parts]
    keys = union([keys[np.diff(starts) > 0] for keys, starts, _, _ in living])
    slots = [np.searchsorted(keys, part_keys).astype(np.uint32) for part_keys, _, _, _ in living]
    counts = np.zeros(len(keys), np.int64)
    for slot, (_, starts, _, _) in zip(slots, living, strict=True):
        n = np.diff(starts)
        counts[slot[n > 0]] += n[n > 0]
    begins = offsets(counts)
    ords = np.empty(begins[-1], np.uint32)
    values = np.empty(begins[-1], np.uint16)
    free, base = begins[:-1].copy(), 0
    for slot, (_, starts, part_ords, part_values), (_, alive) in zip(
        slots, living, parts, strict=True
    ):
        for some in _split_evenly(starts):
            n = np.diff(starts[some.start : some.stop + 1])
            used = slot[some][n > 0]
            place = ranges(free[used], n[n > 0])
            theirs = slice(starts[some.start], starts[some.stop])
            ords[place] = part_ords[theirs] + np.uint32(base)
            values[place] = part_values[theirs]
            free[used] += n[n > 0]
        base += int(alive.sum())
    own, lengths = [], []
    for slot, (part, alive) in zip(slots, parts, strict=True):
        length, part_own = _living_own(part, alive)
        own.append(slot[part_own])
        lengths.append(length)
    return PostingList(
        keys, begins, ords, values, offsets(np.concatenate(lengths)), np.concatenate(own)
    )


def _split_evenly(starts: Ints) -> Iterator[slice]:
    """Runs of lists that are moved together, so that where they go need not be held for all."""
    cuts = np.searchsorted(starts, np.arange(0, starts[-1], _AT_ONCE)).tolist()
    return map(slice, cuts, [*cuts[1:], len(starts) - 1])


def _living_lists(
    part: PostingList, alive: Alive
) -> tuple[Keys, Ints, npt.NDArray[np.uint32], npt.NDArray[np.uint16]]:
    """The inverted lists of one part without its dead chunks, ordinals closed up."""
    if alive.all():
        return part.keys, part.starts, part.ords, part.values
    stays = alive[part.ords]
    slot = np.repeat(np.arange(len(part.keys)), np.diff(part.starts))[stays]
    starts = offsets(np.bincount(slot, minlength=len(part.keys)))
    renumber = (np.cumsum(alive) - 1).astype(np.uint32)
    return part.keys, starts, renumber[part.ords[stays]], part.values[stays]


def copy_lists(parts: Sequence[PostingList], slots: Ints, bases: Ints) -> Hits:
    """The lists of some keys, key by key, given their slots in each part, below 0 where it has none.

    A part's ordinals begin at its base.
    """
    begins, ends = np.zeros_like(slots), np.zeros_like(slots)
    for part, row, begin, end in zip(parts, slots, begins, ends, strict=True):
        there = row >= 0
        begin[there], end[there] = part.starts[row[there]], part.starts[row[there] + 1]
    lengths = ends - begins
    which, where = np.nonzero(lengths.T)
    spans = list(
        zip(where.tolist(), begins[where, which].tolist(), ends[where, which].tolist(), strict=True)
    )
    if not spans:
        none = np.zeros(0, np.int64)
        return Hits(none, none.astype(np.uint16), np.zeros(slots.shape[1], np.int64))
    ords = np.concatenate([parts[n].ords[begin:end] for n, begin, end in spans], dtype=np.int64)
    ords += np.repeat(bases[where], lengths[where, which])
    values = np.concatenate([parts[n].values[begin:end] for n, begin, end in spans])
    return Hits(ords, values, lengths.sum(0))


def total_counts(counts: Sequence[Ints], slots: Ints) -> Ints:
    """The counts of some keys in all segments together, given their slots."""
    total = np.zeros(slots.shape[1], np.int64)
    for mine, row in zip(counts, slots, strict=True):
        if len(mine):
            total += np.where(row >= 0, mine[row], 0)
    return total


def own_slots(part: PostingList, local: Ints) -> tuple[npt.NDArray[np.uint32], Ints]:
    """The keys of some chunks as slots, one chunk after the other, and how many each has."""
    starts = part.own_starts[local]
    counts = part.own_starts[local + 1] - starts
    return part.own[ranges(starts, counts)], counts


def locate_slots(own: npt.NDArray[np.uint32], slots: Ints) -> tuple[Ints, Ints]:
    """Which of some words are one of the slots, and which one; a slot below 0 is none."""
    order = np.argsort(slots)
    order = order[slots[order] >= 0]
    known = slots[order].astype(np.uint32)
    if len(known) > _FEW_TERMS:
        hit = np.isin(own, known)
    else:
        hit = np.zeros(len(own), bool)
        for slot in known:
            hit |= own == slot
    at = np.flatnonzero(hit)
    return at, order[known.searchsorted(own[at])]


_KEPT = 3  # the terms of a query, those of its best chunks, and one more for a request beside it


class Slots:
    """Looks keys up in several vocabularies. Threads may share it: what is remembered is replaced as a whole."""

    def __init__(self, vocabularies: Sequence[Keys]) -> None:
        self._vocabularies = vocabularies
        self._recent: tuple[tuple[Keys, Ints], ...] = ()

    def __call__(self, keys: Keys) -> Ints:
        """The slot of each key in each vocabulary (vocabulary × key), -1 where it has none."""
        if not len(keys):
            return np.zeros((len(self._vocabularies), 0), np.int64)
        for known, slots in self._recent:
            if find(known, keys[:1])[1][0]:
                at, there = find(known, keys)
                if there.all():
                    return slots[:, at]
        order = np.argsort(keys)
        asked = keys[order]
        found = np.empty((len(self._vocabularies), len(keys)), np.int64)
        for row, vocabulary in zip(found, self._vocabularies, strict=True):
            slots, there = find(vocabulary, asked)
            row[:] = np.where(there, slots, -1)
        self._recent = ((asked, found), *self._recent[: _KEPT - 1])
        return found[:, np.argsort(order)]
