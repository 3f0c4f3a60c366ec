"""Blocks: the postings of a batch of changes, as a database keeps them, and the totals of the collection after it.

A chunk that changes gets its postings in a later block, and its record in the former one is deleted. A large batch is a
block. Small ones are parts of one block until it is full. Parts of one size class are joined, so a posting is written a
few times and a query meets few lists; a chunk keeps its doc id.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

import numpy as np

from millgate.index.arrays import Keys
from millgate.index.collection_kind import CERTAIN, DECLARED, SHORT
from millgate.index.files import join
from millgate.index.large.records import (
    CHARS,
    EVIDENCE,
    LANGUAGE,
    NAME_KEYS,
    ChunkIndexRecords,
    encode_index_records,
)
from millgate.index.posting_list import PostingList
from millgate.index.segment import Segment, build
from millgate.index.segment_list import split_evenly
from millgate.index.vectors import Halves
from millgate.protocols import Placement, PostingBlock, Totals
from millgate.text.languages import LANGUAGES
from millgate.types import Change, Chunk

_SPEAKERS = 1_000  # speakers that are told apart
_FULL = 20_000  # chunks from which a block is full
_OWN_BLOCK = 10_000  # chunks from which a batch is a block of its own
_CLASS_BITS = 3
# parts of one size class that are joined, and how much larger the next class is
_JOINED = 1 << _CLASS_BITS


def make_block(
    changes: Sequence[Change],
    gone: ChunkIndexRecords,
    totals: Totals,
    vectors: Halves | None = None,
) -> PostingBlock:
    """The postings of a batch of changes, and the totals after it; `gone` are the records that it replaces or removes.

    `vectors` has one row a change that brings a chunk.
    """
    fresh = [change for change in changes if change.chunk is not None]
    segment = _build([c.chunk for c in fresh if c.chunk], [c.place for c in fresh])
    records = encode_index_records(segment)
    added = ChunkIndexRecords(records)
    plus, minus = added.count_keys(), gone.count_keys()
    keys, which = np.unique(np.concatenate([plus[0], minus[0]]), return_inverse=True)
    difference = np.bincount(which, np.concatenate([plus[1], -minus[1]]), minlength=len(keys))
    placement, totals = place_batch(totals, len(fresh))
    return PostingBlock(
        records=[(change.id, record) for change, record in zip(fresh, records, strict=True)],
        gone=[change.id for change in changes],
        lists=[
            *_lists(segment.terms, segment.terms.keys, placement.first),
            *_lists(segment.names, segment.names.keys ^ NAME_KEYS, placement.first),
        ],
        keys=dict(zip(to_signed(keys), difference.astype(np.int64).tolist(), strict=True)),
        totals=_add(_add(totals, gone, -1), added, 1)._replace(
            seen=changes[-1].seq if changes else totals.seen, saves=totals.saves + 1
        ),
        vectors=vectors,
        placement=placement,
    )


def _build(chunks: Sequence[Chunk], places: Sequence[int]) -> Segment:
    """One segment of a whole batch, read in runs: at once, 20 000 chunks take 86 MB more on the way."""
    runs = list(split_evenly(chunks))
    if len(runs) < 2:
        return build(chunks, places)
    parts = [build(chunks[some], places[some]) for some in runs]
    return join([(part, np.ones(len(part), bool)) for part in parts])


def place_batch(totals: Totals, count: int) -> tuple[Placement, Totals]:
    """Where the next chunks of a collection go, and the totals with their part."""
    if not count:
        return Placement(totals.blocks, sum(totals.parts)), totals
    if not totals.parts and count >= _OWN_BLOCK:
        return Placement(totals.blocks), totals._replace(blocks=totals.blocks + 1)
    first, parts = sum(totals.parts), (*totals.parts, count)
    # a part has twice the number of its end, and one more if it was joined from others
    placement = Placement(totals.blocks, first, 2 * (first + count))
    if first + count >= _FULL:
        whole = placement._replace(join_above=0)
        return whole, totals._replace(blocks=totals.blocks + 1, parts=())
    joined = parts
    while (last := _count_alike(joined)) >= _JOINED:
        joined = (*joined[:-last], sum(joined[-last:]))
    if joined != parts:
        begin = sum(joined[:-1])
        placement = placement._replace(join_above=2 * begin + 1, join_into=placement.part + 1)
    return placement, totals._replace(parts=joined)


def _count_alike(parts: Sequence[int]) -> int:
    """How many parts at the end are in no larger size class than the last one."""
    classes = [(size.bit_length() - 1) // _CLASS_BITS for size in parts]
    alike = takewhile(lambda size_class: size_class <= classes[-1], reversed(classes))
    return sum(1 for _ in alike)


def to_signed(keys: Keys) -> list[int]:
    """Keys as the database writes them: its numbers have a sign."""
    found: list[int] = keys.view(np.int64).tolist()
    return found


def _lists(part: PostingList, keys: Keys, first: int) -> list[tuple[int, bytes]]:
    pairs = np.stack([part.ords + first, part.values], 1).astype("<u2")
    begins = part.starts.tolist()
    return [
        (key, pairs[begin:end].tobytes())
        for key, begin, end in zip(to_signed(keys), begins, begins[1:], strict=False)
    ]


def _add(totals: Totals, records: ChunkIndexRecords, sign: int) -> Totals:
    header = records.header
    evidence = header[:, EVIDENCE]
    languages = np.bincount(header[:, LANGUAGE], minlength=len(LANGUAGES))
    before = np.zeros(len(LANGUAGES), np.int64)
    before[: len(totals.languages)] = totals.languages
    lines = Counter(dict(zip(totals.speakers, totals.lines, strict=False)))
    for speaker in records.speakers[records.speakers > 0].astype(np.int64).tolist():
        lines[speaker] += sign
    speakers = sorted(lines)[:_SPEAKERS]
    return totals._replace(
        chunks=totals.chunks + sign * len(header),
        declared_turns=totals.declared_turns + sign * int((evidence & DECLARED > 0).sum()),
        certain_heads=totals.certain_heads + sign * int((evidence & CERTAIN > 0).sum()),
        with_speaker=totals.with_speaker + sign * int((records.speakers > 0).sum()),
        short_texts=totals.short_texts + sign * int((header[:, CHARS] < SHORT).sum()),
        fields=tuple(np.add(totals.fields, sign * header[:, :4].sum(0)).tolist()),
        languages=tuple(np.add(before, sign * languages).tolist()),
        speakers=tuple(speakers),
        lines=tuple(lines[speaker] for speaker in speakers),
    )
