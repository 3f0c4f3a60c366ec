"""The index on disk: it comes back, survives damage and crashes, and shares its folder."""

import json
import mmap
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millgate.index.folder as folders
from millgate.index import collection
from millgate.index.collection import Collection
from millgate.index.files import DamagedIndex
from millgate.index.indexes import Indexes
from millgate.pipeline.stages.propagate import PropagatePolicy, propagate
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.stores.temporary import TemporaryStore
from millgate.types import Chunk, Document

QUERIES = ("harbor contract", "who is Vega", "turbine number 7")


def put(store, *numbers, text="Vega signed contract {} at the harbor turbine"):
    store.put(
        "t",
        [
            Document(f"d{n}", chunks=(Chunk(f"d{n}", text.format(n), document=f"d{n}"),))
            for n in numbers
        ],
    )


def ranking(view):
    out = []
    for query in QUERIES:
        found = retrieve(query, view, RetrievePolicy())
        wired = propagate(found, query, view, PropagatePolicy())
        out.append([(c.chunk.id, c.score) for c in wired.kept])
    return out


def truth(store):
    return ranking(Indexes(store).snapshot("t", "main"))


def place(tmp_path):
    return folders.folder_of(tmp_path, "t", "main")


@pytest.fixture
def store():
    store = TemporaryStore()
    put(store, *range(30))
    return store


@pytest.fixture
def saved(store, tmp_path):
    indexes = Indexes(store, tmp_path)
    indexes.snapshot("t", "main")
    indexes.close()
    return place(tmp_path)


def test_an_index_comes_back_without_reading_the_feed_again(store, saved, tmp_path):
    put(store, 31)
    asked = []

    class Watched:
        def __getattr__(self, name):
            return getattr(store, name)

        def changes(self, tenant, collection, after, limit=10_000):
            asked.append(after)
            return store.changes(tenant, collection, after, limit)

    view = Indexes(Watched(), tmp_path).snapshot("t", "main")
    assert min(asked) > 0
    assert view.count == 31
    assert not view.degraded
    assert ranking(view) == truth(store)


def test_deleting_the_folder_loses_nothing(store, saved, tmp_path):
    shutil.rmtree(saved)
    view = Indexes(store, tmp_path).snapshot("t", "main")
    assert ranking(view) == truth(store)
    assert not view.degraded


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9])
def test_an_altered_segment_is_noticed_and_rebuilt(store, saved, tmp_path, share):
    path = next(saved.glob("*.seg"))
    data = bytearray(path.read_bytes())
    data[int(share * len(data))] ^= 0xFF
    path.write_bytes(data)
    indexes = Indexes(store, tmp_path)
    view = indexes.snapshot("t", "main")
    assert "rebuilt" in view.degraded
    assert ranking(view) == truth(store)
    indexes.close()
    again = Indexes(store, tmp_path).snapshot("t", "main")
    assert not again.degraded
    assert ranking(again) == truth(store)


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: next(folder.glob("*.seg")).unlink(),
        lambda folder: next(folder.glob("*.seg")).write_bytes(b""),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").write_text('{"format": 99}'),
    ],
    ids=["missing", "empty", "half", "list", "newer"],
)
def test_a_damaged_folder_is_rebuilt_and_said(store, saved, tmp_path, harm):
    harm(saved)
    indexes = Indexes(store, tmp_path)
    view = indexes.snapshot("t", "main")
    assert "rebuilt" in view.degraded
    assert ranking(view) == truth(store)
    indexes.latest("t", "main")
    for again in (indexes.latest("t", "main"), indexes.snapshot("t", "main")):
        assert again.degraded == "", "that is over"
        assert ranking(again) == truth(store)


def test_an_index_of_another_store_is_rebuilt(saved, tmp_path):
    other = TemporaryStore()
    put(other, *range(100, 104), text="another turbine {}")
    view = Indexes(other, tmp_path).snapshot("t", "main")
    assert "rebuilt" in view.degraded
    assert ranking(view) == truth(other)


def test_a_folder_that_cannot_be_written_leaves_the_index_in_memory(store, tmp_path):
    (tmp_path / "file").write_text("in the way")
    indexes = Indexes(store, tmp_path / "file")
    assert ranking(indexes.snapshot("t", "main")) == truth(store)
    indexes.close()
    assert "lives in memory" in indexes.snapshot("t", "main").degraded


class Crash(Exception):
    pass


@pytest.mark.parametrize("after", range(4))
def test_a_crash_in_the_middle_of_saving_leaves_a_usable_index(
    store, saved, tmp_path, monkeypatch, after
):
    """The writer dies before its n-th file is in place: segment, dead list, manifest, or the sweep."""
    put(store, 0, 1, text="replaced {} Vega")
    put(store, 40)
    steps = iter(range(100))

    def dying(real):
        def step(*args):
            if next(steps) == after:
                raise Crash
            return real(*args)

        return step

    for name in ("save_segment", "write_whole", "_delete_unnamed"):
        monkeypatch.setattr(folders, name, dying(getattr(folders, name)))
    doomed = Collection(store, "t", "main", folder=saved)
    doomed.snapshot()
    with pytest.raises(Crash):
        doomed.flush()
    monkeypatch.undo()
    view = Indexes(store, tmp_path).snapshot("t", "main")
    assert not view.degraded
    assert ranking(view) == truth(store)


def is_mapped(array):
    while getattr(array, "base", None) is not None:
        array = array.base
    return isinstance(getattr(array, "obj", array), mmap.mmap)


def test_a_large_index_is_read_from_its_file_once_it_is_saved(tmp_path):
    store = TemporaryStore()
    put(store, *range(600), text="{} " + "Vega signed contract at the harbor turbine " * 60)
    index = Collection(store, "t", "main", folder=tmp_path / "index")
    before = ranking(index.snapshot())
    assert not any(is_mapped(live.segment.terms.own) for live in index._state.lives)
    index.flush()
    (live,) = index._state.lives
    assert is_mapped(live.segment.terms.own)
    assert ranking(index.snapshot()) == before == truth(store)


@pytest.mark.parametrize(("waited", "all_saved"), [(0.0, True), (1e9, False)])
def test_a_collection_that_grows_slowly_is_saved_now_and_then(
    tmp_path, monkeypatch, waited, all_saved
):
    monkeypatch.setattr(collection, "_FLUSH", 10)
    monkeypatch.setattr(collection, "_FLUSH_S", waited)
    store = TemporaryStore()
    put(store, *range(100))
    index = Collection(store, "t", "main", folder=tmp_path / "index")
    index.snapshot()
    put(store, *range(100, 112))
    index.follow_batch()
    assert all(live.file for live in index._state.lives) is all_saved


@pytest.mark.parametrize("count", [120, 150])
def test_an_index_that_was_saved_halfway_is_saved_at_its_end(tmp_path, monkeypatch, count):
    monkeypatch.setattr(collection, "_FLUSH", 40)
    monkeypatch.setattr(collection, "_BATCH", 50)
    store = TemporaryStore()
    put(store, *range(count))
    index = Collection(store, "t", "main", folder=tmp_path / "index")
    assert not index.follow_batch()
    assert not folders.read_state(tmp_path / "index").complete
    while not index.follow_batch():
        pass
    saved = folders.read_state(tmp_path / "index")
    assert (saved.complete, saved.count) == (True, count)


def test_segments_stay_few_while_another_process_saves(tmp_path, monkeypatch):
    monkeypatch.setattr(collection, "_FLUSH", 2)
    store = TemporaryStore()
    index = Collection(store, "t", "main", folder=tmp_path / "index")
    with folders.write_lock(tmp_path / "index") as locked:
        assert locked
        for step in range(40):
            put(store, 2 * step, 2 * step + 1)
            index.follow_batch()
            assert len(index._state.lives) <= 8
    assert ranking(index.snapshot()) == truth(store)


def test_two_indexes_in_one_folder_never_mix(store, tmp_path):
    one, two = Indexes(store, tmp_path), Indexes(store, tmp_path)
    for step in range(6):
        put(store, 100 + step, step)
        for mine in (one, two)[:: 1 if step % 2 else -1]:
            mine.snapshot("t", "main")
            mine.close()
    put(store, 7, text="last {} harbor")
    assert ranking(one.snapshot("t", "main")) == ranking(two.snapshot("t", "main")) == truth(store)
    assert ranking(Indexes(store, tmp_path).snapshot("t", "main")) == truth(store)


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "remove", "reopen", "save"]), st.integers(0, 9)),
        max_size=20,
    )
)
def test_reopening_at_any_moment_changes_nothing(tmp_path_factory, actions):
    root = tmp_path_factory.mktemp("index")
    store, open_ = TemporaryStore(), None
    for step, (action, n) in enumerate(actions):
        open_ = open_ or Indexes(store, root)
        if action == "put":
            put(store, n, text=f"Vega text {step} number {{}} Harbor")
        elif action == "remove":
            store.remove("t", "main", documents=[f"d{n}"])
        elif action == "save":
            open_.snapshot("t", "main")
            open_.close()
        else:
            open_.snapshot("t", "main")
            open_ = None
    assert ranking(Indexes(store, root).snapshot("t", "main")) == truth(store)


WRITER = """
import sys
from contextlib import suppress
from pathlib import Path
from millgate.index.indexes import Indexes
from millgate.stores.temporary import TemporaryStore
from millgate.types import Chunk, Document
store = TemporaryStore()
for n in range(60):
    store.put("t", [Document(f"d{n}", chunks=(Chunk(f"d{n}", f"Vega {n} harbor", document=f"d{n}"),))])
    if n % 3 == int(sys.argv[2]) % 3:
        indexes = Indexes(store, Path(sys.argv[1]))
        assert indexes.snapshot("t", "main").count == n + 1
        indexes.close()
"""


@pytest.mark.slow
def test_processes_that_write_at_once_leave_a_whole_index(tmp_path):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(n)], stderr=subprocess.PIPE
        )
        for n in range(3)
    ]
    failed = [process.communicate()[1].decode() for process in running]
    assert failed == [""] * 3
    manifest = json.loads((place(tmp_path) / "manifest.json").read_text())
    assert {entry["file"] for entry in manifest["segments"]} == {
        path.name for path in Path(place(tmp_path)).glob("*.seg")
    }


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_write_lock_is_free_though_a_child_forked_meanwhile_holds_the_file(tmp_path):
    folder = tmp_path / "root" / "one"
    folder.parent.mkdir()
    with folders.write_lock(folder) as locked:
        assert locked
        # a second descriptor of the same open file, as a child that was forked past our handlers has
        inherited = [os.dup(int(name)) for name in held_descriptors(folder / "lock")]
    try:
        with folders.write_lock(folder) as locked:
            assert locked
    finally:
        for descriptor in inherited:
            os.close(descriptor)


def held_descriptors(path):
    """The descriptors of this process that are open on a file."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if entry.samefile(path):
                yield entry.name


def test_deleting_an_index_that_is_cut_short_leaves_no_manifest_of_files_that_are_gone(
    tmp_path, monkeypatch
):
    store = TemporaryStore()
    put(store, *range(20))
    indexes = Indexes(store, tmp_path)
    indexes.rebuild("t", "main")

    def kill(folder, **options):
        if folder.is_relative_to(tmp_path):
            raise SystemExit

    monkeypatch.setattr(folders.shutil, "rmtree", kill)
    with pytest.raises(SystemExit):
        indexes.rebuild("t", "main")
    assert folders.read_state(place(tmp_path)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"seen": "3"}, {"mark": 5}, {"complete": "yes"}, {"kind": None}, {"segments": 7}, {"segments": [[]]},
        {"segments": [{"file": "../other.seg", "dead": "", "vectors": "", "near": ""}]},
        {"segments": [{"file": "/dev/zero", "dead": "", "vectors": "", "near": ""}]},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_somebody_else_made_is_damaged(tmp_path, change):
    good = {"format": folders.FORMAT, "mark": "m", "seen": 3, "kind": "", "complete": True, "segments": []}  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(good | change))
    with pytest.raises(DamagedIndex):
        folders.read_state(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(good))
    assert folders.read_state(tmp_path).count == 0


def test_a_manifest_without_end_is_damaged(tmp_path):
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    assert folders.manifest_mark(tmp_path) == ""
    assert folders.manifest_seen(tmp_path) is None
    with pytest.raises(DamagedIndex):
        folders.read_state(tmp_path)
