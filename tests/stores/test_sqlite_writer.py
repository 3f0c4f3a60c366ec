"""What the writer of SQLite refuses, takes back and counts."""

import pytest

from millgate.errors import InputError, StoreError
from millgate.stores.sqlite import store as sqlite_store
from millgate.stores.sqlite.store import SqliteStore, _may_only_read
from millgate.testing.samples import document, follow
from millgate.types import Chunk, Document


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "kb")
    yield store
    store.close()


def test_a_chunk_of_another_document_is_not_taken_over(store):
    store.put("t", [document("a", "one", "two")])
    clash = Document("b", chunks=(Chunk("a#1", "other", document="b"),))
    with pytest.raises(InputError, match="a#1"):
        store.put("t", [clash])
    assert [chunk.text for chunk in store.scan("t", "main")] == ["one", "two"]
    store.put("t", [document("a", "one", "three")])
    assert [chunk.text for chunk in store.scan("t", "main")] == ["one", "three"]


def test_what_comes_back_after_its_removal_is_there_for_those_who_follow(store):
    store.put("t", [document("a", "one"), document("b", "two")])
    store.remove("t", "main", documents=["a"])
    assert set(follow(store, "t", "main")) == {"b"}
    store.put("t", [document("a", "again")])
    found = follow(store, "t", "main")
    assert {id: chunk.text for id, chunk in found.items()} == {"a": "again", "b": "two"}


def test_sizes_follow_what_is_put_changed_and_removed(store):
    store.put("t", [document("a", "12345", "678"), document("b", "1")])
    size = store.collections("t")["main"]
    assert (size.documents, size.chunks, size.chars) == (2, 3, 9)
    store.put("t", [document("a", "12", "678")])
    assert store.collections("t")["main"].chars == 6
    store.remove("t", "main", documents=["a"])
    size = store.collections("t")["main"]
    assert (size.documents, size.chunks, size.chars) == (1, 1, 1)


def test_many_chunks_are_read_by_their_ids_in_the_order_asked(store):
    ids = [f"d{n}" for n in range(1_000)]
    store.put("t", [document(id, f"text of {id}") for id in ids])
    assert [chunk.id for chunk in store.chunks("t", "main", ids[::-1])] == ids[::-1]


def test_an_older_store_that_can_only_be_read_says_where_to_open_it(tmp_path, monkeypatch):
    SqliteStore(tmp_path / "kb").close()
    monkeypatch.setattr(sqlite_store, "_may_only_read", lambda path: True)
    SqliteStore(tmp_path / "kb").close()
    monkeypatch.setattr(sqlite_store, "STEPS", (*sqlite_store.STEPS, None))
    with pytest.raises(StoreError, match="has an older format and can only be read here"):
        SqliteStore(tmp_path / "kb")


@pytest.mark.parametrize(("file", "folder", "reads_only"), [(True, True, False), (True, False, True), (False, True, True), (False, False, True)])  # fmt: skip
def test_a_store_is_read_only_if_its_file_or_its_folder_is(tmp_path, monkeypatch, file, folder, reads_only):  # fmt: skip
    path = tmp_path / "millgate.db"
    monkeypatch.setattr(sqlite_store.os, "access", lambda place, _: file if place == path else folder)  # fmt: skip
    assert not _may_only_read(path), "a store that is not there can be made"
    path.write_bytes(b"")
    assert _may_only_read(path) is reads_only
