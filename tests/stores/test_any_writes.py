"""After any writes a store on disk reads as the plain one in memory does, and has counted every byte."""

from hypothesis import given
from hypothesis import strategies as st
from tests.stores.dictionaries import DictionaryStore

from millgate.operations.check import check
from millgate.stores.sqlite.store import SqliteStore
from millgate.types import Chunk, Document


def page(id, *chunks, title="", metadata=None):
    """A document whose chunks are (title, metadata, text)."""
    parts = tuple(
        Chunk(f"{id}#{n}", text, title=own, position=n, metadata=data)
        for n, (own, data, text) in enumerate(chunks)
    )
    return Document(id, title=title, metadata=metadata or {}, chunks=parts)


def read(store):
    return [(c.id, c.title, dict(c.metadata), c.text) for c in store.scan("t", "main")]


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
