"""Indexes that follow in the background: nobody waits, nothing half-made is shown, descriptors are bounded."""

import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from tests.waiting import MOST_S

from millgate.errors import NotReady, StoreError
from millgate.index.folder import folder_of, read_state
from millgate.index.indexes import Indexes
from millgate.stores.sqlite.store import FILE, SqliteStore
from millgate.testing import FailingStore
from millgate.testing.samples import document
from millgate.types.policy import IndexPolicy


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path)
    yield store
    store.close()


@pytest.fixture
def open_indexes(tmp_path):
    """Opens indexes over a store, and closes them at the end."""
    opened = []

    def make(store, folder=tmp_path / "index"):
        opened.append(Indexes(store, folder))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def fill(store, count, collection="main", word="ferry"):
    store.put("t", [document(f"{word}{n}", f"{word} {n}", collection=collection) for n in range(count)])  # fmt: skip


def followed(indexes, collection="main"):
    """The collection once the background has caught up."""
    for _ in range(2000):
        try:
            view = indexes.latest("t", collection)
        except NotReady:
            view = None
        if view is not None and "behind" not in view.degraded:
            return view
        threading.Event().wait(0.005)
    raise AssertionError("it never caught up")


def found(view):
    return set(view.ids(view.reading_order()[1]))


class Gated:
    """A store whose feed of one collection waits until it is let go."""

    def __init__(self, store, collection):
        self._store, self._collection = store, collection
        self.go = threading.Event()
        self.asked = threading.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    def changes(self, tenant, collection, after, limit=10_000):
        if collection == self._collection and limit > 100:
            self.asked.set()
            assert self.go.wait(MOST_S)
        return self._store.changes(tenant, collection, after, limit)


def test_an_index_that_is_being_made_delays_neither_its_own_requests_nor_others(
    store, open_indexes
):
    fill(store, 200, "large")
    fill(store, 3, "small")
    slow = Gated(store, "large")
    indexes = open_indexes(slow)
    with pytest.raises(NotReady, match="'large' is still being made") as caught:
        indexes.latest("t", "large")
    assert caught.value.retry_after > 0
    assert slow.asked.wait(MOST_S)
    with pytest.raises(NotReady):
        indexes.latest("t", "large")
    assert found(indexes.latest("t", "small")) == {"ferry0", "ferry1", "ferry2"}
    slow.go.set()
    assert len(found(followed(indexes, "large"))) == 200


def test_what_another_process_added_is_followed_behind_the_former_answer(store, open_indexes):
    fill(store, 200)
    indexes = open_indexes(store)
    indexes.snapshot("t", "main")
    fill(store, 100, word="tide")
    view = indexes.latest("t", "main")
    assert len(found(view)) == 200
    assert view.degraded == "the index is behind the store and follows in the background"
    assert len(found(followed(indexes))) == 300


def test_a_few_changes_are_taken_in_at_once(store, open_indexes):
    fill(store, 200)
    indexes = open_indexes(store)
    indexes.snapshot("t", "main")
    store.put("t", [document("new", "a new page")])
    store.remove("t", "main", documents=["ferry7"])
    view = indexes.latest("t", "main")
    assert "new" in found(view)
    assert "ferry7" not in found(view)
    assert view.degraded == ""


def test_a_rebuild_that_was_interrupted_goes_on_where_it_was(store, open_indexes, tmp_path, monkeypatch):  # fmt: skip
    monkeypatch.setattr("millgate.index.collection._BATCH", 1500)
    fill(store, 6000)
    broken = FailingStore(store, methods={"changes"}, after=3)
    with pytest.raises(StoreError, match="down"):
        open_indexes(broken).snapshot("t", "main")
    saved = read_state(folder_of(tmp_path / "index", "t", "main"))
    assert saved.count >= 3000
    assert not saved.complete
    read = []

    class Watched(Gated):
        def changes(self, tenant, collection, after, limit=10_000):
            read.append(after)
            return store.changes(tenant, collection, after, limit)

    indexes = open_indexes(Watched(store, ""))
    with pytest.raises(NotReady):
        indexes.latest("t", "main")
    assert len(found(followed(indexes))) == 6000
    assert min(read) >= 3000


def test_a_restored_database_does_not_believe_the_index_beside_it(store, tmp_path):
    fill(store, 300)
    for text in ("before", "lost"):
        store.put("t", [document(f"ferry{n}", f"{text} {n}") for n in range(300)])
        indexes = Indexes(store, tmp_path / "index")
        indexes.snapshot("t", "main")
        indexes.close()
        if text == "before":
            raw = sqlite3.connect(tmp_path / FILE)
            raw.execute("VACUUM INTO ?", (str(tmp_path / "backup.db"),))
            raw.close()
    store.close()
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", tmp_path / FILE)
    restored = SqliteStore(tmp_path)
    restored.put("t", [document(f"ferry{n}", f"restored {n}") for n in range(300)])
    indexes = Indexes(restored, tmp_path / "index")
    view = indexes.snapshot("t", "main")
    assert "did not belong to this store" in view.degraded
    assert _words(view, "restored") == 300
    assert _words(view, "lost") == 0
    indexes.close()
    restored.close()


def _words(view, word):
    import numpy as np

    from millgate.text.terms import terms

    return int(view.frequencies(np.array(terms(word), np.uint64)).sum())


def test_a_save_that_failed_is_made_up_for(store, tmp_path, monkeypatch):
    monkeypatch.setattr("millgate.index.collection._RETRY_S", 0.0)
    (tmp_path / "index").write_text("in the way")
    fill(store, 1500)
    indexes = Indexes(store, tmp_path / "index")
    assert "lives in memory" in indexes.snapshot("t", "main").degraded
    (tmp_path / "index").unlink()
    fill(store, 1500, word="tide")
    assert indexes.snapshot("t", "main").degraded == ""
    indexes.close()
    assert read_state(folder_of(tmp_path / "index", "t", "main")).count == 3000


def test_an_index_deleted_under_a_running_one_is_saved_whole_again(store, tmp_path):
    fill(store, 1500)
    indexes = Indexes(store, tmp_path / "index")
    indexes.snapshot("t", "main")
    shutil.rmtree(tmp_path / "index")
    fill(store, 1500, word="tide")
    indexes.snapshot("t", "main")
    indexes.close()
    assert read_state(folder_of(tmp_path / "index", "t", "main")).count == 3000


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0


def test_many_collections_hold_few_descriptors_and_little_memory(store, tmp_path, monkeypatch):
    monkeypatch.setattr("millgate.index.files._READ", 0)  # every file is mapped
    indexes = Indexes(store, tmp_path / "index", policy=IndexPolicy(max_open=8))
    before = descriptors()
    for n in range(60):
        fill(store, 2, f"c{n}")
        assert found(indexes.snapshot("t", f"c{n}")) == {"ferry0", "ferry1"}
        indexes.latest("t", f"nobody{n}")
    assert len(indexes._open) == 8
    assert descriptors() - before < 25
    assert found(indexes.snapshot("t", "c0")) == {"ferry0", "ferry1"}
    indexes.close()


def test_a_store_that_was_moved_is_not_made_anew_under_its_old_name(tmp_path):
    home = tmp_path / "kb"
    store = SqliteStore(home)
    fill(store, 1500)
    indexes = Indexes(store, home / "index")
    home.rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="moved, deleted or replaced"):
        indexes.snapshot("t", "main")
    with pytest.raises(StoreError, match="moved, deleted or replaced"):
        fill(store, 1)
    indexes.close()
    store.close()
    assert not home.exists()


def test_a_damaged_file_that_is_too_large_to_check_at_once_is_found_in_the_background(
    store, tmp_path, open_indexes, monkeypatch
):
    fill(store, 300)
    first = Indexes(store, tmp_path / "index")
    first.snapshot("t", "main")
    first.close()
    (segment,) = (tmp_path / "index").rglob("*.seg")
    data = bytearray(segment.read_bytes())
    data[-100] ^= 0xFF
    segment.write_bytes(data)
    for module in ("files", "folder", "merging"):
        monkeypatch.setattr(f"millgate.index.{module}.CHECKED", 0)
    indexes = open_indexes(store)
    assert indexes.snapshot("t", "main").degraded == ""
    for _ in range(2000):
        view = indexes.snapshot("t", "main")
        if "does not match its checksum" in view.degraded:
            break
        threading.Event().wait(0.005)
    assert "the index was rebuilt" in view.degraded
    assert len(found(view)) == 300
