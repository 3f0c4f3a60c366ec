"""Index records: what the index knows of one chunk, as bytes that the database keeps beside it.

If the chunks of a query are picked out of millions, each brings its own part of a segment's arrays, and no text is read
again (candidate_snapshot.py). Every part is padded to 8-byte numbers, so that many records are joined and read as one:

    header | terms in reading order | names | case keys | flags and label lengths of the names | labels of the names

Of a case key the lower half is kept: it is counted among some thousand chunks, where that is enough.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from millgate.classes import lazy_property
from millgate.index.arrays import Ints, Keys, cut_texts, offsets, ranges
from millgate.index.posting_list import Counts, PostingList, to_term_ids
from millgate.index.segment import Segment

# a name's key in a database is its own XOR this, so that it cannot equal a term's
NAME_KEYS = np.uint64(0x9E3779B97F4A7C15)

TITLE, DATE, SPEAKER_TERMS, BODY, NAMES, CASE, LABELS, CHARS, EVIDENCE, LANGUAGE, SPEAKER, PLACE, POSITION = range(13)  # fmt: skip
_HEADER = 13


def encode_index_records(segment: Segment) -> list[bytes]:
    """The record of each chunk of a segment, in its order."""
    names, case, starts = segment.names, segment.case, segment.label_starts
    flags = _flags_by_chunk(names)
    lengths = np.diff(starts)[names.own]
    header = np.zeros((len(segment), _HEADER), "<u8")
    header[:, :NAMES] = segment.fields
    header[:, NAMES], header[:, CASE] = np.diff(names.own_starts), np.diff(case.own_starts)
    header[:, LABELS] = np.add.reduceat(np.append(lengths, 0), names.own_starts[:-1]) * (
        header[:, NAMES] > 0
    )
    columns = (segment.chars, segment.evidence, segment.language, segment.speaker, segment.place, segment.position)  # fmt: skip
    for at, column in enumerate(columns, CHARS):
        header[:, at] = column
    records = []
    for at in range(len(segment)):
        mine = slice(*names.own_starts[at : at + 2].tolist())
        keys = [_own_keys(part, at) for part in (segment.terms, names)]
        cases = _own_keys(case, at).astype("<u4").tobytes()
        labels = segment.labels[ranges(starts[names.own[mine]], lengths[mine])].tobytes()
        marks = np.stack([flags[mine], lengths[mine]]).astype("<u2").tobytes()
        numbers = b"".join(part.astype("<u8").tobytes() for part in (header[at], *keys))
        records.append(numbers + _pad(cases) + _pad(marks) + _pad(labels))
    return records


def _own_keys(part: PostingList | Counts, at: int) -> Keys:
    found: Keys = part.keys[part.own[part.own_starts[at] : part.own_starts[at + 1]]]
    return found


def _flags_by_chunk(names: PostingList) -> npt.NDArray[np.uint16]:
    """The flags of the names, in the order in which the chunks own the names."""
    width = max(len(names.keys), 1)
    owner = np.repeat(np.arange(len(names.own_starts) - 1), np.diff(names.own_starts))
    term_id = np.repeat(np.arange(len(names.keys)), np.diff(names.starts))
    flags = np.zeros(len(names.own), np.uint16)
    by_chunk = np.argsort(names.ords.astype(np.int64) * width + term_id, kind="stable")
    flags[np.argsort(owner * width + names.own, kind="stable")] = names.values[by_chunk]
    return flags


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


class ChunkIndexRecords:
    """Several records, read as arrays: one row of `header` a chunk, and the keys of all in one run each.

    `sizes` are their bytes, if a part of the data is not one record.
    """

    def __init__(self, data: Sequence[bytes], sizes: Ints | None = None) -> None:
        self._data = np.frombuffer(b"".join(data), np.uint8)
        self._numbers = self._data.view("<u8")
        if sizes is None:
            sizes = np.array([len(record) for record in data], np.int64)
        begins = offsets(sizes // 8)[:-1]
        rows = self._numbers[begins[:, None] + np.arange(_HEADER)] if len(sizes) else np.zeros((0, _HEADER), np.uint64)  # fmt: skip
        self.header = rows.astype(np.int64)
        self.speakers: Keys = rows[:, SPEAKER].astype(np.uint64)
        self.lengths: Ints = self.header[:, :NAMES].sum(1)
        self.name_counts: Ints = self.header[:, NAMES]
        self._terms_at = begins + _HEADER
        self._names_at = self._terms_at + self.lengths
        self._case_at = self._names_at + self.name_counts
        self._marks_at = self._case_at + (self.header[:, CASE] + 1) // 2

    def __len__(self) -> int:
        return len(self.header)

    @lazy_property
    def terms(self) -> Keys:
        """The terms of all chunks, in reading order."""
        return self._numbers[ranges(self._terms_at, self.lengths)].astype(np.uint64, copy=False)

    @lazy_property
    def names(self) -> Keys:
        """The names of all chunks."""
        return self._numbers[ranges(self._names_at, self.name_counts)].astype(np.uint64, copy=False)

    @lazy_property
    def case(self) -> npt.NDArray[np.uint32]:
        """The lower halves of the case keys of all chunks."""
        halves = self._data.view("<u4")
        return halves[ranges(2 * self._case_at, self.header[:, CASE])].astype(np.uint32, copy=False)

    @lazy_property
    def flags(self) -> npt.NDArray[np.uint16]:
        """Where in its chunk each name stands."""
        marks = self._data.view("<u2")
        return marks[ranges(4 * self._marks_at, self.name_counts)].astype(np.uint16, copy=False)

    @lazy_property
    def _label_starts(self) -> Ints:
        """Where the label of each name begins, and one more for the end, as if no bytes lay between them."""
        marks = self._data.view("<u2")
        return offsets(marks[ranges(4 * self._marks_at + self.name_counts, self.name_counts)])

    def labels(self, which: Ints) -> list[str]:
        """How some of the names read."""
        firsts = offsets(self.name_counts)
        owner = np.searchsorted(firsts, which, side="right") - 1
        at = self._marks_at + (self.name_counts + 1) // 2  # two marks a name, four to a number
        starts = self._label_starts
        begins = 8 * at[owner] + starts[which] - starts[firsts[owner]]
        ends = begins + starts[which + 1] - starts[which]
        return cut_texts(self._data, begins, ends)

    def count_keys(self) -> tuple[Keys, Ints]:
        """The terms and names of these chunks as a database knows them, and in how many chunks each stands."""
        owner = np.repeat(np.arange(len(self)), self.lengths)
        keys, term_ids = to_term_ids(self.terms)
        once = np.unique(owner * max(len(keys), 1) + term_ids) % max(len(keys), 1)
        names, counts = np.unique(self.names, return_counts=True)
        return (
            np.concatenate([keys, names ^ NAME_KEYS]),
            np.concatenate([np.bincount(once, minlength=len(keys)), counts]),
        )
