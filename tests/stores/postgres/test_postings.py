"""Postings in the database: what is saved comes back, a block follows the last one, and rare keys come first."""

import struct

import pytest

from millgate.protocols import BLOCK_BITS, Placement, PostingBlock, RecordRows, Totals
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document

TOTALS = Totals(seen=1, chunks=2, declared_turns=1, with_speaker=2, short_texts=2, fields=(1, 0, 0, 9), languages=(2,), speakers=(7, 8), lines=(1, 1), blocks=1, parts=(2,), saves=1)  # fmt: skip


@pytest.fixture
def store(postgres_url):
    store = PostgresStore(postgres_url)
    store.put("t", [document("a", "one", "two")])
    yield store
    store.close()


def pairs(*numbers):
    return b"".join(number.to_bytes(2, "little") for number in numbers)


RECORDS = [("a#0", b"zero"), ("a#1", b"one")]
LISTS = [(5, pairs(0, 1)), (6, pairs(0, 1, 1, 1))]
FIRST = PostingBlock(RECORDS, [], LISTS, {5: 1, 6: 2}, TOTALS)
NOTHING = Totals()
NEXT = PostingBlock([], [], [], {}, TOTALS._replace(seen=2, saves=2), placement=Placement(block=1))


def save(store, block=FIRST, *, after=NOTHING):
    return store.save_block("t", "main", block, after=after)


def test_totals_come_back_as_they_were_saved(store):
    assert store.posting_state("t", "main")[0] == Totals()
    assert store.posting_state("t", "absent") == (Totals(), 0)
    assert store.lease_postings("t", "main", NOTHING)
    assert store.posting_state("t", "main")[0] == Totals()
    assert save(store)
    totals, head = store.posting_state("t", "main")
    assert totals == TOTALS
    assert head >= 1
    assert isinstance(totals.parts, tuple)


def test_one_process_at_a_time_holds_the_lease_until_its_block_is_written(store):
    assert store.lease_postings("t", "main", NOTHING)
    assert not store.lease_postings("t", "main", NOTHING)
    save(store)
    assert not store.lease_postings("t", "main", NOTHING), "another has gone on from there"
    assert store.lease_postings("t", "main", TOTALS)
    store.release_postings("t", "main")
    assert store.lease_postings("t", "main", TOTALS)


def test_a_block_that_does_not_follow_the_last_one_is_refused(store):
    store.lease_postings("t", "main", NOTHING)
    assert not save(store, after=Totals(seen=3))
    assert save(store)
    assert not save(store)
    assert not save(store, NEXT, after=TOTALS._replace(saves=0)), "it was saved once more"
    assert save(store, NEXT, after=TOTALS)


def test_records_are_found_by_doc_id_and_by_chunk_id_and_go_when_they_change(store):
    store.lease_postings("t", "main", NOTHING)
    save(store)
    places, sizes = struct.pack(">2q", 0, 1), struct.pack(">2i", 4, 3)
    both = RecordRows(places, ["a#0", "a#1"], sizes, b"zeroone")
    assert store.records_at("t", "main", [1, 0]) == both
    assert store.records_at("t", "main", []) == RecordRows()
    assert store.records_of("t", "main", ["a#1", "absent"]) == [b"one"]
    later = Placement(block=1, first=3)
    moved = NEXT._replace(records=[("a#0", b"new")], gone=["a#0"], placement=later)
    save(store, moved, after=TOTALS)
    place = (1 << BLOCK_BITS) + 3
    new = RecordRows(struct.pack(">q", place), ["a#0"], struct.pack(">i", 3), b"new")
    assert store.records_at("t", "main", [0, place]) == new


def test_records_of_chunks_with_odd_ids_are_found(store):
    store.lease_postings("t", "main", NOTHING)
    ids = ['"', "{,}", "\0\1", "NULL", ""]
    save(store, FIRST._replace(records=[(id, b"draft") for id in ids]))
    assert store.records_at("t", "main", range(9)).ids == ids


def test_counts_add_up_over_blocks(store):
    store.lease_postings("t", "main", NOTHING)
    save(store)
    assert store.count_keys("t", "main", [5, 6, 7]) == {5: 1, 6: 2}
    save(store, NEXT._replace(keys={5: 3, 6: -1, 7: 0}), after=TOTALS)
    assert store.count_keys("t", "main", [5, 6, 7]) == {5: 4, 6: 1}


def test_the_rarest_keys_come_within_the_budget_and_one_at_least(store):
    store.lease_postings("t", "main", NOTHING)
    save(store)

    def lists(**bounds):
        found = store.key_lists("t", "main", [5, 6], **bounds)
        return {row.key: row.lists for row in found if row.lists is not None}

    assert lists(budget=3) == {5: pairs(0, 1), 6: pairs(0, 1, 1, 1)}
    assert set(lists(budget=2)) == {5}
    assert set(lists(budget=3, most=1)) == {5}


def test_postings_that_are_cleared_are_gone(store):
    store.lease_postings("t", "main", NOTHING)
    save(store)
    store.clear_postings("t", "main")
    assert store.posting_state("t", "main")[0] == Totals()
    assert store.count_keys("t", "main", [5, 6]) == {}
    assert store.records_at("t", "main", [0, 1]) == RecordRows()


def test_a_block_that_has_lost_half_is_sparse_and_one_that_has_lost_all_is_deleted(store):
    store.lease_postings("t", "main", NOTHING)
    save(store)

    def sparse(**bounds):
        return store.sparse_records("t", "main", **{"below": 1, "most": 9} | bounds)

    assert sparse() == []
    save(store, NEXT._replace(gone=["a#0"]), after=TOTALS)
    assert sparse() == [("a#1", b"one")]
    assert sparse(below=0) == [], "it is not full yet"
    assert sparse(most=0) == []
    assert store.key_lists("t", "main", [6], budget=9)[0].lists == pairs(0, 1, 1, 1)
    last = NEXT.totals._replace(saves=3)
    save(store, NEXT._replace(gone=["a#1"], totals=last), after=NEXT.totals)
    assert sparse() == []
    assert store.key_lists("t", "main", [6], budget=9)[0].lists is None


def test_lists_of_keys_in_too_few_chunks_are_not_read(store):
    store.lease_postings("t", "main", NOTHING)
    save(store)
    found = store.key_lists("t", "main", [5, 6], budget=9, least=2)
    assert {row.key: row.lists for row in found} == {5: None, 6: pairs(0, 1, 1, 1)}
