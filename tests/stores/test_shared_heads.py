"""A title or metadata that chunks share with their document is stored once, and each chunk reads as it was put."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.dictionaries import DictionaryStore

from millgate.operations.check import check
from millgate.stores.sqlite.store import FILE, SqliteStore
from millgate.types import Chunk, Document

LARGE = {"note": "m" * 10_000}


def page(id, *chunks, title="", metadata=None):
    """A document whose chunks are (title, metadata, text)."""
    parts = tuple(
        Chunk(f"{id}#{n}", text, title=own, position=n, metadata=data)
        for n, (own, data, text) in enumerate(chunks)
    )
    return Document(id, title=title, metadata=metadata or {}, chunks=parts)


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path)
    yield opened
    opened.close()


def read(store):
    return [(c.id, c.title, dict(c.metadata), c.text) for c in store.scan("t", "main")]


def test_what_a_hundred_chunks_share_is_stored_once(store, tmp_path):
    chunks = [("T" * 400, LARGE, f"text {n}") for n in range(100)]
    store.put("t", [page("a", *chunks, title="T" * 400, metadata=LARGE)])
    raw = sqlite3.connect(tmp_path / FILE)
    (held,) = raw.execute(
        "SELECT sum(length(coalesce(title, '')) + length(coalesce(metadata, ''))) FROM chunks"
    ).fetchone()
    (counted,) = raw.execute("SELECT bytes FROM collections").fetchone()
    raw.close()
    assert held == 0
    assert 10_400 < counted < 13_000
    assert {(c.title, c.metadata["note"]) for c in store.scan("t", "main")} == {
        ("T" * 400, LARGE["note"])
    }


def test_a_chunk_that_stays_as_it_was_keeps_its_title_when_its_document_gets_another(store):
    store.put("t", [page("a", ("A", {"k": 1}, "one"), title="A", metadata={"k": 1})])
    before = store.head("t", "main")
    changed = store.put("t", [page("a", ("A", {"k": 1}, "one"), title="B", metadata={"k": 2})])
    assert (changed, store.head("t", "main")) == (0, before)
    assert read(store) == [("a#0", "A", {"k": 1}, "one")]
    store.put("t", [page("a", ("A", {"k": 1}, "one"), title="A", metadata={"k": 1})])
    assert read(store) == [("a#0", "A", {"k": 1}, "one")]


def test_every_way_to_read_a_chunk_gives_what_it_shares(store):
    store.put("t", [page("a", ("A", {"k": 1}, "one"), title="A", metadata={"k": 1})])
    (change,) = store.changes("t", "main", 0)
    (by_id,) = store.chunks("t", "main", ["a#0"])
    ((_, _, record),) = store.records()
    assert {(c.title, c.metadata["k"]) for c in (change.chunk, by_id, record.chunks[0])} == {
        ("A", 1)
    }


titles = st.sampled_from(["", "A", "B"])
data = st.sampled_from([{}, {"k": 1}, {"k": 2}])
parts = st.lists(st.tuples(titles, data, st.sampled_from(["one", "zwei é"])), max_size=3)
puts = st.tuples(st.just("put"), st.sampled_from("ab"), titles, data, parts)
removals = st.one_of(
    st.tuples(st.just("document"), st.sampled_from("ab")),
    st.tuples(st.just("chunk"), st.sampled_from(["a#0", "a#1", "b#0"])),
    st.tuples(st.just("all"), st.none()),
)


@given(st.lists(st.one_of(puts, removals), min_size=1, max_size=8))
def test_after_any_writes_it_reads_as_in_memory_and_every_byte_is_counted(tmp_path_factory, writes):
    folder = tmp_path_factory.mktemp("store")
    disk, memory = SqliteStore(folder), DictionaryStore()
    for kind, name, *rest in writes:
        for store in (disk, memory):
            if kind == "put":
                title, metadata, chunks = rest
                store.put("t", [page(name, *chunks, title=title, metadata=metadata)])
            elif kind == "document":
                store.remove("t", "main", documents=[name])
            elif kind == "chunk":
                store.remove("t", "main", chunks=[name])
            else:
                store.remove("t", "main")
        assert read(disk) == read(memory)
        assert disk.head("t", "main") == memory.head("t", "main")
    disk.close()
    assert [f.what for f in check(folder) if "fingerprint" not in f.what] == []
