"""Drafts: what the index knows of one chunk, as bytes that stand beside it in a database.

A segment holds the postings of many chunks as arrays. Where the chunks of a query are picked one by one out of millions,
each brings its own part of those arrays, and `assemble` makes a segment of them without reading a text again.
Every part of a draft is a run of 8-byte numbers, so that many drafts are joined and read as one array:

    header | terms in reading order | names | case keys | flags and label lengths of the names | labels of the names
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets, ranges
from headgate.index.posting_list import Counts, PostingList, count_keys, to_slots
from headgate.index.segment import Segment, index_terms
from headgate.text.terms import number

TITLE, DATE, SPEAKER_TERMS, BODY, NAMES, CASE, LABELS, CHARS, TOLD, LANGUAGE, SPEAKER, PLACE, POSITION = range(13)  # fmt: skip
_HEADER = 13


def draft_chunks(segment: Segment) -> list[bytes]:
    """The draft of each chunk of a segment, in its order."""
    names, case, starts = segment.names, segment.case, segment.label_starts
    flags = _flags_by_chunk(names)
    lengths = np.diff(starts)[names.own]
    header = np.zeros((len(segment), _HEADER), "<u8")
    header[:, :NAMES] = segment.fields
    header[:, NAMES], header[:, CASE] = np.diff(names.own_starts), np.diff(case.own_starts)
    header[:, LABELS] = np.add.reduceat(np.append(lengths, 0), names.own_starts[:-1]) * (
        header[:, NAMES] > 0
    )
    columns = (segment.chars, segment.told, segment.language, segment.speaker, segment.place, segment.position)  # fmt: skip
    for at, column in enumerate(columns, CHARS):
        header[:, at] = column
    drafts = []
    for at in range(len(segment)):
        mine = slice(*names.own_starts[at : at + 2].tolist())
        keys = [_own_keys(part, at) for part in (segment.terms, names, case)]
        labels = segment.labels[ranges(starts[names.own[mine]], lengths[mine])].tobytes()
        marks = np.stack([flags[mine], lengths[mine]]).astype("<u2").tobytes()
        numbers = b"".join(part.astype("<u8").tobytes() for part in (header[at], *keys))
        drafts.append(numbers + _pad(marks) + _pad(labels))
    return drafts


def _own_keys(part: PostingList | Counts, at: int) -> Keys:
    found: Keys = part.keys[part.own[part.own_starts[at] : part.own_starts[at + 1]]]
    return found


def _flags_by_chunk(names: PostingList) -> npt.NDArray[np.uint16]:
    """The flags of the names in the order in which the chunks own them."""
    width = max(len(names.keys), 1)
    owner = np.repeat(np.arange(len(names.own_starts) - 1), np.diff(names.own_starts))
    slot = np.repeat(np.arange(len(names.keys)), np.diff(names.starts))
    flags = np.zeros(len(names.own), np.uint16)
    by_chunk = np.argsort(names.ords.astype(np.int64) * width + slot, kind="stable")
    flags[np.argsort(owner * width + names.own, kind="stable")] = names.values[by_chunk]
    return flags


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


class Drafts:
    """Several drafts, read as arrays: one row of `header` a chunk, and the keys of all in one run each."""

    def __init__(self, drafts: Sequence[bytes]) -> None:
        data = np.frombuffer(b"".join(drafts), np.uint8)
        numbers = data.view("<u8")
        sizes = np.array([len(draft) // 8 for draft in drafts], np.int64)
        begins = offsets(sizes)[:-1]
        rows = numbers[(begins[:, None] + np.arange(_HEADER))] if len(drafts) else np.zeros((0, _HEADER), np.uint64)  # fmt: skip
        self.header = rows.astype(np.int64)
        self.speakers: Keys = rows[:, SPEAKER].astype(np.uint64)
        self.lengths = self.header[:, :NAMES].sum(1)
        names, case = self.header[:, NAMES], self.header[:, CASE]
        at = begins + _HEADER
        self.terms: Keys = numbers[ranges(at, self.lengths)].astype(np.uint64)
        at = at + self.lengths
        self.names: Keys = numbers[ranges(at, names)].astype(np.uint64)
        at = at + names
        self.case: Keys = numbers[ranges(at, case)].astype(np.uint64)
        at = at + case
        marks = data.view("<u2")
        self.flags = marks[ranges(4 * at, names)]
        self.label_lengths = marks[ranges(4 * at + names, names)].astype(np.int64)
        at = at + (names + 1) // 2  # two marks a name, four to a number
        self.labels: Bytes = data[ranges(8 * at, self.header[:, LABELS])]

    def distinct_terms(self) -> tuple[Keys, Ints]:
        """The terms of these chunks, and in how many of them each stands."""
        owner = np.repeat(np.arange(len(self.header)), self.lengths)
        keys, slots = to_slots(self.terms)
        once = np.unique(owner * max(len(keys), 1) + slots) % max(len(keys), 1)
        return keys, np.bincount(once, minlength=len(keys))


def assemble(ids: Sequence[str], drafts: Drafts) -> Segment:
    """The segment of these chunks, equal to the one that their texts would give."""
    header = drafts.header
    joined, id_starts = join_texts(ids)
    id_keys = np.array([number(id) for id in ids], np.uint64)
    order = np.argsort(id_keys, kind="stable")
    names, labels, label_starts = _index_names(drafts)
    return Segment(
        ids=joined,
        id_starts=id_starts,
        id_keys=id_keys[order],
        id_ords=order,
        place=header[:, PLACE],
        position=header[:, POSITION],
        fields=header[:, :NAMES],
        chars=header[:, CHARS],
        speaker=drafts.speakers,
        told=header[:, TOLD].astype(np.uint8),
        language=header[:, LANGUAGE].astype(np.uint8),
        terms=index_terms(*to_slots(drafts.terms), header[:, :NAMES]),
        names=names,
        labels=labels,
        label_starts=label_starts,
        case=count_keys(drafts.case, header[:, CASE]),
    )


def _index_names(drafts: Drafts) -> tuple[PostingList, Bytes, Ints]:
    keys, own = to_slots(drafts.names)
    lengths = drafts.header[:, NAMES]
    chunk = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
    order = np.argsort(own, kind="stable")
    first = order[np.searchsorted(own[order], np.arange(len(keys)))]
    begins = offsets(drafts.label_lengths)
    sizes = drafts.label_lengths[first]
    found = PostingList(
        keys,
        offsets(np.bincount(own, minlength=len(keys))),
        chunk[order],
        drafts.flags[order].astype(np.uint16),
        offsets(lengths),
        own,
    )
    return found, drafts.labels[ranges(begins[first], sizes)], offsets(sizes)
