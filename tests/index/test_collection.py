"""The incremental index ranks exactly as one built at once from the final state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.index import merging, segment_list
from millgate.index.indexes import Indexes
from millgate.index.merging import join
from millgate.index.segment import LiveSegment, Segment
from millgate.index.segment_list import absorb, tidy
from millgate.index.snapshot import SegmentSnapshot
from millgate.index.tokenized_batch import build
from millgate.pipeline.stages.propagate import PropagatePolicy, propagate
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.stores.temporary import TemporaryStore
from millgate.types import Change, Chunk, Document

WORDS = [
    "harbor",
    "Lisbon",
    "signed",
    "contract",
    "Vega",
    "engine",
    "the",
    "of",
    "river",
    "Oslo",
    "pump",
    "valve",
    "Marta",
    "turbine",
]
QUERIES = ("harbor contract", "where is Vega", "turbine valve pump", "Marta in Lisbon")

texts = st.lists(st.sampled_from(WORDS), min_size=0, max_size=12).map(" ".join)
spoken = st.tuples(st.sampled_from(["Ann", "Bo"]), texts).map(lambda t: f"[3 May] {t[0]}: {t[1]}.")
titles = st.sampled_from(["", "Vega", "Lisbon harbor"])
ids = st.integers(0, 12).map(lambda n: f"d{n}")


def document(id, pieces, title):
    chunks = tuple(
        Chunk(f"{id}/{n}", text, document=id, title=title, position=n)
        for n, text in enumerate(pieces)
    )
    return Document(id, title=title, chunks=chunks)


def puts(kind):
    return st.builds(
        lambda *a: ("put", document(*a)), ids, st.lists(kind, min_size=1, max_size=3), titles
    )


removals = st.tuples(st.just("remove"), ids)


def ranking(view):
    out = []
    for query in QUERIES:
        found = retrieve(query, view, RetrievePolicy())
        wired = propagate(found, query, view, PropagatePolicy())
        out.append([(c.chunk.id, c.score, c.notes[-1].reason) for c in wired.kept])
    return out


def play(store, action, value):
    if action == "put":
        store.put("t", [value])
    else:
        store.remove("t", "main", documents=[value])


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", [texts, spoken], ids=["prose", "talk"])
def test_a_followed_index_ranks_as_one_built_at_once(kind):
    @given(st.lists(st.one_of(puts(kind), puts(kind), removals), min_size=1, max_size=25))
    def check(actions):
        store = TemporaryStore()
        followed = Indexes(store)
        for step, (action, value) in enumerate(actions):
            play(store, action, value)
            if step % 2:
                followed.snapshot("t", "main")
        mine = followed.snapshot("t", "main")
        fresh = Indexes(store).snapshot("t", "main")
        assert mine.count == fresh.count == fresh.size
        assert mine.conversational == fresh.conversational
        assert mine.unseen_rate == fresh.unseen_rate
        assert ranking(mine) == ranking(fresh)

    check()


def test_neighbors_in_a_conversation_follow_reading_order_after_an_edit():
    store = TemporaryStore()
    lines = [f"[1 May] {who}: {text}" for who, text in zip("ABABA" * 2, WORDS * 2, strict=False)]
    store.put("t", [document(f"d{n}", [line], "") for n, line in enumerate(lines)])
    indexes = Indexes(store)
    indexes.snapshot("t", "main")
    store.put("t", [document("d4", ["[1 May] A: an edited line about quartz"], "")])
    view = indexes.snapshot("t", "main")
    _, standing = view.reading_order()
    assert view.ids(standing) == [f"d{n}/0" for n in range(len(lines))]
    best = [c.chunk.id for c in retrieve("quartz", view, RetrievePolicy(feedback=0)).kept]
    assert best[0] == "d4/0"
    assert set(best[1:5]) == {"d3/0", "d5/0", "d2/0", "d6/0"}


def test_segments_stay_few_and_dead_chunks_are_swept():
    lives = []
    for n in range(200):
        chunk = Chunk(f"c{n % 90}", f"text {n}", document=f"c{n % 90}")
        lives = tidy(absorb(lives, [Change(n + 1, chunk.id, chunk, n % 90)]))
    view = SegmentSnapshot(lives, lambda _: [])
    assert view.count == 90
    assert len(lives) <= 8
    assert sum(len(live.dead) for live in lives) <= 0.25 * view.size
    assert sorted(view.ids(np.flatnonzero(view.alive))) == sorted(f"c{n}" for n in range(90))


def test_a_segment_whose_chunks_are_all_dead_goes_and_one_that_is_half_dead_is_rewritten():
    chunks = [Chunk(f"c{n}", f"text {n}", document=f"c{n}") for n in range(4)]
    lives = absorb([], [Change(n + 1, c.id, c, n) for n, c in enumerate(chunks)])
    half = tidy(absorb(lives, [Change(5, "c0"), Change(6, "c1")]))
    assert [(len(live), len(live.dead)) for live in half] == [(2, 0)]
    assert tidy(absorb(half, [Change(7, "c2"), Change(8, "c3")])) == []


def test_a_view_stays_as_it_was_while_the_store_goes_on():
    store = TemporaryStore()
    store.put("t", [document("a", ["harbor contract"], "")])
    indexes = Indexes(store)
    before = indexes.snapshot("t", "main")
    store.put("t", [document("b", ["harbor contract signed"], "")])
    assert indexes.snapshot("t", "main").count == 2
    assert before.count == 1
    assert [c.chunk.id for c in retrieve("harbor", before, RetrievePolicy()).kept] == ["a/0"]


def test_what_a_part_adds_up_to_is_counted_once_however_much_is_added_or_removed(monkeypatch):
    store = TemporaryStore()
    store.put("t", [document(f"a{n}", ["harbor contract", "Vega engine"], "") for n in range(200)])
    indexes = Indexes(store)
    view = indexes.snapshot("t", "main")
    norms, conversational = view.norms(b=0.75, title=1.0, head=True), view.conversational
    counted, count = [], Segment.add_up

    def add_up(segment, some):
        found = count(segment, some)
        counted.append(int(found.languages.sum()))
        return found

    monkeypatch.setattr(Segment, "add_up", add_up)
    store.put("t", [document("b", ["turbine valve pump"], "")])
    store.remove("t", "main", documents=["a7"])
    fresh = indexes.snapshot("t", "main")
    assert fresh.conversational == conversational
    assert len(fresh.norms(b=0.75, title=1.0, head=True)) == len(norms) + 1
    assert sorted(counted) == [1, 2], "the new chunk, and the two that went"


def test_an_empty_collection_finds_nothing():
    view = Indexes(TemporaryStore()).snapshot("t", "nothing")
    found = retrieve("anything", view, RetrievePolicy())
    assert found.kept == ()
    assert propagate(found, "anything", view, PropagatePolicy()).kept == ()


def test_the_unseen_rate_is_the_share_of_postings_whose_term_stands_in_one_chunk():
    store = TemporaryStore()
    indexes = Indexes(store)
    assert indexes.snapshot("t", "main").unseen_rate == 0.0
    store.put(
        "t", [document("a", ["harbor contract pump"], ""), document("b", ["harbor pump"], "")]
    )
    assert indexes.snapshot("t", "main").unseen_rate == 1 / 5
    store.put("t", [document("c", ["contract valve"], "")])
    assert indexes.snapshot("t", "main").unseen_rate == 1 / 7


def test_the_unseen_rate_of_a_large_collection_is_estimated_from_a_part_of_its_vocabulary(
    monkeypatch,
):
    texts = [f"pump of series {n % 400} bought in lot {n}x{n * 7 % 900}y" for n in range(900)]
    chunks = [Chunk(f"c{n}", text, document=f"c{n}") for n, text in enumerate(texts)]
    lives = absorb([], [Change(n + 1, c.id, c, n) for n, c in enumerate(chunks)])
    whole = SegmentSnapshot(lives, lambda _: []).unseen_rate
    monkeypatch.setattr("millgate.index.snapshot._SAMPLED_CHUNKS", 300)
    assert SegmentSnapshot(lives, lambda _: []).unseen_rate == pytest.approx(whole, rel=0.15)


def test_behind_a_large_segment_the_small_ones_are_made_one(monkeypatch):
    monkeypatch.setattr(segment_list, "_COMPACT_UP_TO", 8)
    sizes = [10, 3, 2, 1]
    chunks = [Chunk(f"c{n}", f"ferry number{n}") for n in range(sum(sizes))]
    lives, at = [], 0
    for size in sizes:
        lives.append(LiveSegment(build(chunks[at : at + size], range(at, at + size))))
        at += size
    runs = segment_list.compact(lives)
    assert [list(map(len, run)) for run in runs] == [[10], [3, 2, 1]]
    assert runs[0][0] is lives[0]
    found = [LiveSegment(join([(live.segment, live.alive) for live in run])) for run in runs]
    ids = SegmentSnapshot(found, lambda _: ()).find([chunk.id for chunk in chunks])
    assert ids.tolist() == list(range(len(chunks)))


def test_lists_that_are_moved_in_parts_make_the_same_segment(monkeypatch):
    made = [Chunk(f"c{n}", " ".join(WORDS[n % 5 : n % 5 + 6]), title="Vega") for n in range(12)]
    halves = [build(made[:7], range(7)), build(made[7:], range(7, 12))]
    alive = [np.array([True] * 7), np.array([True, False, True, True, False])]
    whole = join(list(zip(halves, alive, strict=True)))
    monkeypatch.setattr(merging, "_AT_ONCE", 4)
    parts = join(list(zip(halves, alive, strict=True)))
    for part in ("terms", "names"):
        for name in ("keys", "starts", "ords", "values", "own_starts", "own"):
            one, other = (getattr(getattr(made, part), name) for made in (whole, parts))
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()


def test_texts_of_many_terms_are_read_into_more_segments():
    def segments(text):
        return len(absorb([], [Change(n, f"c{n}", Chunk(f"c{n}", text), n) for n in range(40)]))

    assert segments("harbor contract " * 1_250) == 1  # 20 000 characters each, and 2 500 terms
    assert segments("潮満" * 10_000) == 6
    assert segments("x " * 10_000) == 3


def test_terms_come_chunk_by_chunk_as_asked_whatever_segments_they_lie_in():
    chunks = [Chunk(f"c{n}", f"ferry number{n} Oslo") for n in range(6)]
    halves = [LiveSegment(build(chunks[at : at + 3], range(at, at + 3))) for at in (0, 3)]
    one = SegmentSnapshot([LiveSegment(build(chunks, range(6)))], lambda _: ())
    two = SegmentSnapshot(halves, lambda _: ())
    for asked in ([4, 0, 5, 1], [2, 1, 0], [3], []):
        ords = np.array(asked, np.int64)
        whole, parted = one.token_streams(ords), two.token_streams(ords)
        assert parted.owner.tolist() == sorted(parted.owner.tolist())
        assert parted.terms.tolist() == whole.terms.tolist()
        assert parted.field.tolist() == whole.field.tolist()
