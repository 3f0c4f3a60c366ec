"""What a database keeps of each chunk tells a ranking the same as the chunks themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.index.large.blocks import make_block, to_signed
from millgate.index.large.candidate_snapshot import CandidateSnapshot
from millgate.index.large.records import NAME_KEYS, ChunkIndexRecords, encode_index_records
from millgate.index.live_segment import LiveSegment
from millgate.index.segment import build
from millgate.index.snapshot import SegmentSnapshot
from millgate.protocols import Totals
from millgate.rank.name_postings import find_name_postings
from millgate.types import Change, Chunk

TEXTS = st.lists(
    st.sampled_from([
        "Ada Lovelace met Charles Babbage in London. She wrote notes.",
        "In London the notes of Charles Babbage were read, and london was glad.",
        "[2024-05-01] Ana: the tide turns at six, said Ines.",
        "def read_file(path): return open(path).read()",
        "潮は六時に変わる。",
        "",
        "a",
    ]),
    min_size=1,
    max_size=8,
)  # fmt: skip


def both(texts):
    """The same chunks as a snapshot of segments, and as one of records."""
    chunks = [
        Chunk(f"c{n}", text, title="Ada Lovelace" * (n % 2), position=n)
        for n, text in enumerate(texts)
    ]
    changes = [Change(n + 1, chunk.id, chunk, 10 + n) for n, chunk in enumerate(chunks)]
    block = make_block(changes, ChunkIndexRecords([]), Totals())
    segment = build(chunks, [change.place for change in changes])
    whole = SegmentSnapshot([LiveSegment(segment)], lambda ids: [])

    def count(keys):
        return np.array([block.keys.get(key, 0) for key in to_signed(keys)], np.int64)

    records = ChunkIndexRecords([record for _, record in block.records])
    return whole, CandidateSnapshot(
        [c.id for c in chunks], records, whole.read, block.totals, count
    )


def same(one, two):
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a, b)


@given(TEXTS, st.randoms(use_true_random=False))
def test_a_ranking_reads_the_same_from_index_records_as_from_a_segment(texts, dice):
    whole, records = both(texts)
    keys = np.unique(np.concatenate([whole.lives[0].segment.terms.keys, np.array([7], np.uint64)]))
    terms = np.array(dice.sample(keys.tolist(), len(keys)), np.uint64)
    ords = np.array(dice.sample(range(len(texts)), dice.randint(1, len(texts))))
    assert (records.size, records.count) == (whole.size, whole.count)
    same(records.postings(terms), whole.postings(terms))
    same(records.token_streams(ords), whole.token_streams(ords))
    same(records.term_positions(ords, terms), whole.term_positions(ords, terms))
    assert np.array_equal(records.frequencies(terms), whole.frequencies(terms))
    assert np.array_equal(records.speakers(), whole.speakers())
    chunks = [Chunk(f"c{ord}", texts[ord]) for ord in ords.tolist()]
    assert records.locate_terms(chunks, terms) == whole.locate_terms(chunks, terms)
    for head in (True, False):
        norms = [view.norms(b=0.75, title=2.0, head=head) for view in (records, whole)]
        assert norms[0] == pytest.approx(norms[1])


@given(TEXTS, st.integers(1, 3))
def test_names_are_the_same_from_index_records_as_from_a_segment(texts, limit):
    whole, records = both(texts)
    ords = np.arange(len(texts))
    same(records.names(ords), whole.names(ords))
    keys = np.unique(np.concatenate([np.array([7], np.uint64), *whole.names(ords)]))[::-1]
    same(records.find_names(keys), whole.find_names(keys))
    counts = [view.count_names(keys, limit=limit) for view in (records, whole)]
    assert np.array_equal(*counts)
    assert counts[0].max() <= limit
    assert records.labels(keys) == whole.labels(keys)
    assert np.array_equal(records.name_frequencies(keys), whole.name_frequencies(keys))
    assert records.is_proper(keys, share=0.5).tolist() == whole.is_proper(keys, share=0.5).tolist()


@given(TEXTS)
def test_order_and_ids_are_the_same_from_index_records_as_from_a_segment(texts):
    whole, records = both(texts)
    ords = np.arange(len(texts))
    assert np.array_equal(records.reading_order_key(ords), whole.reading_order_key(ords))
    same(records.reading_order(), whole.reading_order())
    assert records.ids(ords) == whole.ids(ords)
    assert records.find(["c0", "none"]).tolist() == whole.find(["c0", "none"]).tolist()
    assert (records.conversational, records.language) == (whole.conversational, whole.language)


def test_a_name_is_as_common_among_a_few_candidates_as_in_the_whole_collection():
    texts = [*["We met in Oslo at the Grand Hotel."] * 3, *["We slept in Oslo."] * 40]
    whole, records = both(texts)
    totals, count = records._totals, records._count_keys
    few = ChunkIndexRecords(encode_index_records(build([Chunk(f"c{n}", text) for n, text in enumerate(texts[:5])], [*range(5)])))  # fmt: skip
    narrowed = CandidateSnapshot(
        [f"c{n}" for n in range(5)], few, whole.read, totals, count, how="words"
    )
    seeds = np.array([0])
    found, held = (
        find_name_postings(view, seeds, limit=500, share=0.5) for view in (narrowed, whole)
    )
    assert np.array_equal(found.keys, held.keys)
    assert found.counts.tolist() == held.counts.tolist()
    assert max(found.counts) == 43


def test_terms_and_names_are_counted_once_a_chunk():
    chunks = [Chunk("a", "tide tide near Oslo, tide"), Chunk("b", "tide near Oslo")]
    keys, counts = ChunkIndexRecords(encode_index_records(build(chunks, [1, 2]))).count_keys()
    assert counts.tolist() == [2] * len(counts)
    assert len(set(keys.tolist())) == len(keys)


def test_a_name_has_another_key_than_the_term_that_reads_the_same():
    segment = build([Chunk("a", "We met in Oslo.")], [1])
    keys, _ = ChunkIndexRecords(encode_index_records(segment)).count_keys()
    assert set(segment.names.keys ^ NAME_KEYS) <= set(keys)
    assert not set(segment.names.keys ^ NAME_KEYS) & set(segment.terms.keys)


def test_index_records_repeat_as_many_of_their_terms_as_a_segment():
    whole, records = both([f"pump {n} beside pump {n + 1} in lot {n}" for n in range(60)])
    assert records.repetition == whole.repetition > 0


def test_the_unseen_rate_of_index_records_is_that_of_a_segment_and_falls_with_the_size_of_the_collection():
    texts = [f"pump of series{n % 150} bought in lot{n} by clerk{n % 90}" for n in range(600)]
    whole, records = both(texts)
    assert records.unseen_rate == pytest.approx(whole.unseen_rate, rel=0.3)
    part = CandidateSnapshot(
        records.ids(np.arange(600)),
        records._records,
        whole.read,
        records._totals._replace(chunks=60_000),
        records._count_keys,
    )
    assert 0 < part.unseen_rate < records.unseen_rate / 2
