"""A backup of a store that is being written is whole, and a restore answers as the store did."""

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from millgate.errors import InputError, StoreError
from millgate.gateway import Millgate
from millgate.operations.backup import backup, restore
from millgate.operations.doctor import examine
from millgate.settings import Settings
from millgate.stores.sqlite.store import FILE, SqliteStore
from millgate.testing.samples import document


def fill(folder, count=200):
    with Millgate.open(folder) as gate:
        gate.add({"id": f"p{n}", "text": f"Refund {n} is paid by card."} for n in range(count))
        gate.remember("Ada maintains the ferry.")


def test_a_backup_taken_while_others_write_holds_all_that_was_acknowledged_before(tmp_path):
    store = SqliteStore(tmp_path / "kb")
    store.put("t", [document(f"before{n}", "word " * 50) for n in range(500)])
    stop, written = threading.Event(), []

    def write():
        while not stop.is_set():
            store.put("t", [document(f"during{len(written)}", "word " * 50)])
            written.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    told = []
    made = [
        backup(tmp_path / "kb", tmp_path / f"copy{n}", on_bytes=lambda *at: told.append(at))
        for n in range(3)
    ]
    stop.set()
    writer.join()
    store.close()
    for one in made:
        copy = SqliteStore(one.path.parent)
        held = {chunk.id for chunk in copy.scan("t", "main")}
        assert {f"before{n}" for n in range(500)} <= held
        assert copy.size("t", "main").chunks == len(held) == one.chunks
        copy.close()


def test_a_backup_can_be_restored_and_answers_as_before(tmp_path):
    fill(tmp_path / "kb")
    with Millgate.open(tmp_path / "kb") as gate:
        asked = gate.context("how is refund 7 paid?").chunks
    backup(tmp_path / "kb", tmp_path / "copy")
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": "p7", "text": "something else entirely"}])
    restore(tmp_path / "copy", tmp_path / "kb", replace=True)
    with Millgate.open(tmp_path / "kb") as gate:
        assert gate.context("how is refund 7 paid?").chunks == asked
        assert [hit.fact.content for hit in gate.recall("ferry")] == ["Ada maintains the ferry."]
    assert len(list((tmp_path / "kb").glob(f"{FILE}.before-*"))) >= 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can")
def test_what_root_restores_belongs_to_the_owner_of_the_folder(tmp_path):
    fill(tmp_path / "kb", 3)
    backup(tmp_path / "kb", tmp_path / "copy")
    os.chown(tmp_path / "kb", 12_345, 12_346)
    made = restore(tmp_path / "copy", tmp_path / "kb", replace=True).path.stat()
    assert (made.st_uid, made.st_gid) == (12_345, 12_346)


def test_a_running_gate_notices_that_its_store_was_restored(tmp_path):
    fill(tmp_path / "kb", 3)
    backup(tmp_path / "kb", tmp_path / "copy")
    with Millgate.open(tmp_path / "kb") as gate:
        restore(tmp_path / "copy", tmp_path / "kb", replace=True)
        with pytest.raises(StoreError, match="replaced while it was open"):
            gate.add([{"id": "late", "text": "would be lost"}])


def test_nothing_is_overwritten_unasked(tmp_path):
    fill(tmp_path / "kb", 3)
    backup(tmp_path / "kb", tmp_path / "copy")
    with pytest.raises(InputError, match="exists already"):
        backup(tmp_path / "kb", tmp_path / "copy")
    with pytest.raises(InputError, match="already"):
        restore(tmp_path / "copy", tmp_path / "kb")
    with pytest.raises(InputError, match="no store"):
        backup(tmp_path / "nowhere", tmp_path / "copy2")
    with pytest.raises(InputError, match="no backup"):
        restore(tmp_path / "nowhere", tmp_path / "kb2")


def test_a_damaged_backup_is_refused_and_the_store_stays(tmp_path):
    fill(tmp_path / "kb", 300)
    made = backup(tmp_path / "kb", tmp_path / "copy")
    data = bytearray(made.path.read_bytes())
    for page in range(20, len(data) // 4096):
        data[page * 4096 : page * 4096 + 2048] = b"\xff" * 2048
    made.path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        restore(tmp_path / "copy", tmp_path / "kb", replace=True)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE theirs (x)").connection.close()
    with pytest.raises(StoreError, match="not a store"):
        restore(other, tmp_path / "kb", replace=True)
    with Millgate.open(tmp_path / "kb") as gate:
        assert gate.collections()["main"].chunks == 300


class Killed(BaseException):
    """Stands for a process that ends here."""


def kill_at(monkeypatch, number):
    """End a restore when it is about to give a file its n-th new name."""
    rename, left = Path.replace, [number]

    def rename_or_die(self, target):
        left[0] -= 1
        if not left[0]:
            raise Killed
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", rename_or_die)


def documents(folder):
    with closing(SqliteStore(folder)) as store:
        return store.size("default", "main").documents


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_restore_that_is_killed_leaves_the_store_as_it_was(tmp_path, monkeypatch, number):
    fill(tmp_path / "kb", 3)
    backup(tmp_path / "kb", tmp_path / "copy")
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": "last", "text": "acknowledged, and in the log alone"}])
        with monkeypatch.context() as patch:
            kill_at(patch, number)
            with pytest.raises(Killed):
                restore(tmp_path / "copy", tmp_path / "kb", replace=True)
    assert documents(tmp_path / "kb") == 4
    restore(tmp_path / "copy", tmp_path / "kb", replace=True)
    assert documents(tmp_path / "kb") == 3


def test_a_restore_killed_while_a_reader_holds_the_log_is_told_at_the_next_opening(
    tmp_path, monkeypatch
):
    kb = tmp_path / "kb"
    fill(kb, 3)
    backup(kb, tmp_path / "copy")
    with closing(sqlite3.connect(kb / FILE, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM chunks").fetchone()
        with Millgate.open(kb) as gate:
            gate.add([{"id": "last", "text": "acknowledged, and in the log alone"}])
        with monkeypatch.context() as patch:
            kill_at(patch, 2)
            with pytest.raises(Killed):
                restore(tmp_path / "copy", kb, replace=True)
    with pytest.raises(StoreError, match="stopped halfway"):
        SqliteStore(kb)
    (found,) = [one for one in examine(Settings(store=str(kb)), kb) if one.part == "store"]
    assert (found.state, "restore again" in found.todo) == ("problem", True)
    (aside,) = (path for path in kb.glob(f"{FILE}.before-*") if path.suffix != ".tmp" and "-wal" not in path.name)  # fmt: skip
    with closing(sqlite3.connect(aside)) as former:
        assert former.execute("SELECT count(*) FROM documents").fetchone() == (4,)
    restore(tmp_path / "copy", kb, replace=True)
    assert documents(kb) == 3


def test_a_clean_store_is_backed_up_where_no_file_can_be_made_beside_it(tmp_path):
    fill(tmp_path / "kb", 3)
    # as on a disk that is full, or that can only be read
    (tmp_path / "kb" / f"{FILE}-shm").symlink_to(tmp_path / "nowhere" / "shm")
    assert backup(tmp_path / "kb", tmp_path / "copy").chunks == 3
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(tmp_path / "kb")
