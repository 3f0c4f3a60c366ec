"""The SQLite store on bad days: killed, crowded, full, damaged, foreign, old and too new."""

import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
from tests.waiting import MOST_S

from millgate.errors import NotReady, StoreError
from millgate.gateway import Millgate
from millgate.stores.sqlite import migrations
from millgate.stores.sqlite.connection import translate
from millgate.stores.sqlite.store import FILE, SqliteStore
from millgate.testing.samples import document, follow
from millgate.types import Fact

HERE = Path(__file__).parent


def crash(*words):
    """Start the crash script beside this file."""
    return subprocess.Popen(
        [sys.executable, str(HERE / "crash.py"), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")},
        text=True,
    )


def finished(processes):
    """What each said, once all have ended well."""
    outcomes = [process.communicate(timeout=MOST_S) for process in processes]
    assert [error for _, error in outcomes] == [""] * len(processes)
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [said for said, _ in outcomes]


@pytest.mark.slow
def test_fifty_kills_lose_nothing_that_was_acknowledged(tmp_path):
    said = finished([crash("kill", tmp_path, seed, 25) for seed in (1, 2)])
    assert sum(map(int, said)) > 25, "the kills came before anything was written"


def test_four_writers_at_once_meet_no_lock(tmp_path):
    finished([crash("write", tmp_path, f"w{n}", 12) for n in range(4)])
    store = SqliteStore(tmp_path)
    held = {chunk.id: chunk for chunk in store.scan("t", "main")}
    assert len(held) == 4 * (12 * 20 * 2 + 4)
    assert follow(store, "t", "main", limit=500) == held
    assert store.collections("t")["main"].chunks == len(held)
    store.close()


def test_a_store_of_an_older_release_is_brought_up_to_date_and_keeps_what_it_holds(tmp_path):
    with closing(SqliteStore(tmp_path)) as store:
        store.put("t", [document("a", "one")])
    later = (*migrations.STEPS, "CREATE TABLE more (x); INSERT INTO more VALUES (1)")
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as raw:
        for _ in range(2):
            migrations.migrate(raw, tmp_path, steps=later)
            assert raw.execute("SELECT count(*) FROM more").fetchone() == (1,)
            assert migrations.version(raw) == len(later)
            assert raw.execute("SELECT text FROM chunks").fetchall() == [("one",)]


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    SqliteStore(tmp_path).close()
    raw = sqlite3.connect(tmp_path / FILE)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(StoreError, match=r"has version 99; this release reads up to \d") as caught:
        SqliteStore(tmp_path)
    assert "upgrade" in caught.value.hint


def test_a_database_of_another_program_is_left_alone(tmp_path):
    raw = sqlite3.connect(tmp_path / FILE)
    raw.execute("CREATE TABLE theirs (x)")
    raw.commit()
    raw.close()
    with pytest.raises(StoreError, match="another program"):
        SqliteStore(tmp_path)


def test_a_file_where_the_folder_should_be_is_an_error(tmp_path):
    (tmp_path / "kb").write_text("not a folder")
    with pytest.raises(StoreError, match="is a file; a store is a folder"):
        SqliteStore(tmp_path / "kb")
    with pytest.raises(StoreError, match="cannot be made"):
        SqliteStore(tmp_path / "kb" / "below")


def test_a_folder_that_cannot_be_written_is_an_error():
    with pytest.raises(StoreError, match=r"cannot be (made|opened|written)"):
        SqliteStore("/proc/millgate")


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        SqliteStore(tmp_path)
    assert "folder" in caught.value.hint


def test_a_damaged_header_is_told(tmp_path):
    SqliteStore(tmp_path).close()
    (tmp_path / FILE).write_bytes(b"this is not a database" * 500)
    with pytest.raises(StoreError, match="not a database") as caught:
        SqliteStore(tmp_path)
    assert "backup" in caught.value.hint


def test_damaged_pages_are_told(tmp_path):
    store = SqliteStore(tmp_path)
    store.put("t", [document(f"d{n}", "word " * 200) for n in range(300)])
    store.close()
    data = bytearray((tmp_path / FILE).read_bytes())
    for page in range(60, len(data) // 4096):  # behind the schema and the roots of its tables
        data[page * 4096 : page * 4096 + 2048] = b"\xff" * 2048
    (tmp_path / FILE).write_bytes(data)
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="damaged"):
        list(store.scan("t", "main"))
    store.close()


def test_a_full_disk_keeps_what_was_there(tmp_path):
    store = SqliteStore(tmp_path, max_bytes=400_000)
    store.put("t", [document("a", "kept")])
    with pytest.raises(StoreError, match="full") as caught:
        store.put("t", [document(f"d{n}", "word " * 500) for n in range(500)])
    assert "free disk space" in caught.value.hint
    assert [chunk.id for chunk in store.scan("t", "main")] == ["a"]
    store.put("t", [document("b", "still works")])
    assert follow(store, "t", "main").keys() == {"a", "b"}
    store.close()


def test_a_writer_that_waits_too_long_says_so(tmp_path):
    store = SqliteStore(tmp_path, timeout_s=0.05)
    holder = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another writer"):
        store.put("t", [document("a", "one")])
    assert list(store.scan("t", "main")) == [], "readers never wait"
    holder.execute("ROLLBACK")
    holder.close()
    assert store.put("t", [document("a", "one")]) == 1
    store.close()


def test_an_interrupt_inside_a_write_leaves_nothing_behind(tmp_path):
    store = SqliteStore(tmp_path)
    store.save_fact("t", Fact("f", "x"))

    def interrupted(fact):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.amend_fact("t", "f", interrupted)
    assert store.put("t", [document("a", "one")]) == 1
    store.close()


def test_what_is_stored_is_there_after_reopening(tmp_path):
    store = SqliteStore(tmp_path)
    store.put("t", [document("a", "one", "two")])
    secret, head = store.secret("t"), store.head("t", "main")
    store.close()
    again = SqliteStore(tmp_path)
    assert (again.secret("t"), again.head("t", "main")) == (secret, head)
    assert [chunk.text for chunk in again.scan("t", "main")] == ["one", "two"]
    again.close()


def test_a_read_only_store_opens_for_reading_and_says_that_it_cannot_be_written(tmp_path):
    with Millgate.open(tmp_path) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid by card."}])
        gate.remember("Ada pays refunds.")
        gate.context("refunds")
    before = {path.name for path in tmp_path.iterdir()}
    store = SqliteStore(tmp_path, read_only=True)
    with Millgate.open(store=store) as gate:
        made = gate.context("how are refunds paid?")
        assert made.chunks[0].id == "a"
        assert made.degraded == ("trace: not stored: the store can only be read",)
        assert [hit.fact.content for hit in gate.recall("refunds")] == ["Ada pays refunds."]
        with pytest.raises(StoreError, match="cannot be written"):
            gate.add([{"id": "b", "text": "more"}])
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_burst_of_threads_leaves_few_connections(tmp_path):
    store = SqliteStore(tmp_path)
    store.put("t", [document("a", "one")])
    ready = Barrier(30)

    def read(_):
        with store._pool.read() as connection:
            ready.wait()
            return connection.execute("SELECT 1").fetchone()

    with ThreadPoolExecutor(30) as pool:
        list(pool.map(read, range(30)))
    assert len(store._pool._idle) <= 8
    store.close()


def test_a_deleted_store_acknowledges_nothing(tmp_path):
    store = SqliteStore(tmp_path / "kb")
    store.put("t", [document("a", "one")])
    shutil.rmtree(tmp_path / "kb")
    with pytest.raises(StoreError, match="moved, deleted or replaced"):
        store.put("t", [document("b", "two")])
    assert not (tmp_path / "kb").exists()
    store.close()


@pytest.mark.parametrize(("free", "says"), [(0, "disk, or the store's limit, is full"), (1 << 30, "check the disk")])  # fmt: skip
def test_an_error_of_a_disk_without_room_says_that_it_is_full(tmp_path, monkeypatch, free, says):
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert says in str(translate(tmp_path, error, tmp_path))


def test_a_process_whose_store_a_newer_release_upgrades_is_told(tmp_path):
    store = SqliteStore(tmp_path)
    store.put("t", [document("a", "one")])
    newer = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    newer.execute("ALTER TABLE chunks ADD COLUMN more TEXT")
    newer.execute(f"PRAGMA user_version = {len(migrations.STEPS) + 1}")
    newer.close()
    with pytest.raises(NotReady, match="a newer release of millgate has upgraded the store"):
        store.put("t", [document("b", "two")])
    store.close()


def test_a_store_opened_by_a_relative_path_is_found_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Millgate.open("kb") as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        gate.add([{"id": "b", "text": "Parcels leave at noon."}])
        assert [chunk.id for chunk in gate.context("refunds").chunks] == ["a"]
