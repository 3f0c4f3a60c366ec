"""The SQLite store on bad days: killed, crowded, full, damaged, foreign, old and too new."""

import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from tests.waiting import MOST_S

from millgate.errors import NotReady, QuotaError, StoreError
from millgate.gateway import Millgate
from millgate.operations.check import Finding, check
from millgate.stores.codec import encode
from millgate.stores.sqlite import migrations
from millgate.stores.sqlite.connection import translate
from millgate.stores.sqlite.store import FILE, SqliteStore
from millgate.stores.stored_trace import summarize_json
from millgate.testing.samples import document, follow, trace
from millgate.types import Edge, Fact

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


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    SqliteStore(tmp_path).close()
    raw = sqlite3.connect(tmp_path / FILE)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(StoreError, match=r"has version 99; this release reads up to \d") as caught:
        SqliteStore(tmp_path)
    assert "upgrade" in caught.value.hint


MISSING = "2 chunks of t/main lack the fingerprint of their text"


@pytest.mark.parametrize("version", range(1, 9))  # until then a chunk was stored as it is below
def test_an_old_store_upgrades_and_keeps_what_it_holds(tmp_path, version):
    (tmp_path / "old").mkdir()
    raw = sqlite3.connect(tmp_path / "old" / FILE, isolation_level=None)
    migrations.migrate(raw, tmp_path, steps=migrations.STEPS[:version])
    raw.execute("INSERT INTO tenants (tenant, seq, place) VALUES ('t', 2, 1)")
    raw.execute("INSERT INTO sizes VALUES ('t', 'main', 1, 2, 6)")
    raw.execute(
        """INSERT INTO documents VALUES ('t', 'main', 'a', 1, 'Notes', '', 'file', '{"k":1}')"""
    )
    rows = [("a#0", 0, 1, "Notes", '{"k":1}', "one"), ("a#1", 1, 2, "Part", "", "two")]
    for id, position, seq, title, data, text in rows:
        row = ("t", "main", id, "a", 1, position, seq, 3, "document", title, data, None, text)
        raw.execute(f"INSERT INTO chunks VALUES ({', '.join('?' * 13)})", row)
    raw.close()
    upgraded = SqliteStore(tmp_path / "old")
    held = [(c.text, c.title, c.metadata) for c in upgraded.scan("t", "main")]
    assert held == [("one", "Notes", {"k": 1}), ("two", "Part", {})]
    assert check(tmp_path / "old") == [Finding(MISSING)]
    upgraded.save_fact("t", Fact("f", "a fact"))
    assert upgraded.facts("t") == [Fact("f", "a fact")]
    upgraded.put("t", [document("b", "three")])
    assert upgraded.traces("t") == []
    upgraded.close()


def test_a_new_store_has_the_tables_that_the_steps_make(tmp_path):
    def tables(steps):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as raw:
            migrations.migrate(raw, tmp_path, steps=steps)
            rows = raw.execute("SELECT name, sql FROM sqlite_master ORDER BY name, tbl_name")
            return [(name, " ".join((sql or "").split())) for name, sql in rows]

    assert tables(migrations.STEPS) == tables((*migrations.STEPS[:-1], migrations.COLLECTIONS))


def test_a_store_of_the_release_before_keeps_its_feed_facts_and_counts(tmp_path):
    before = migrations.STEPS[: migrations.STEPS.index(migrations.COLLECTIONS)]
    fact, edge = Fact("f", "Water is wet."), Edge("a", "is", "b", 0.5, "p" * 3_000)
    rows = {
        "tenants": ("t", 9, 4, 6, 3, 0),
        "sizes": ("t", "main", 1, 1, 3, 5),
        "documents": ("t", "main", "a", 4, "", "", "file", ""),
        "chunks": ("t", "main", "a", "a", 4, 0, 7, 3, 4, "document", "", "", None, "one"),
        "removed": ("t", "main", "b", 9),
        "edges": ("t", "a", "is", "b", edge.weight, edge.provenance, "a", "b"),
        "facts": ("t", "f", fact.content, 5, encode(fact), fact.key),
        "forgotten": ("t", "g", 6),
    }
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as raw:
        migrations.migrate(raw, tmp_path, steps=before)
        for table, row in rows.items():
            raw.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    with closing(SqliteStore(tmp_path, tenant_bytes=10_000)) as store:
        assert (store.tenants(), store.head("t", "main")) == (["t"], 9)
        assert [(c.seq, c.id) for c in store.changes("t", "main", 0)] == [(7, "a"), (9, "b")]
        assert [(c.seq, c.id) for c in store.fact_changes("t", 0)] == [(5, "f"), (6, "g")]
        assert store.edges_touching("t", ["A"]) == [edge]
        assert store.save_fact("t", Fact("h", "water is WET")).id == "f"
        store.put("t", [document("c", "new")])
        assert [(c.seq, c.id) for c in store.changes("t", "main", 9)] == [(10, "c")]
        assert [chunk.id for chunk in store.scan("t", "main")] == ["a", "c"]
        with pytest.raises(QuotaError):
            store.put("t", [document("d", "x" * 7_000)])
        store.unlink("t", [edge])
        store.put("t", [document("d", "x" * 7_000)])
        store.save_trace(trace("new"))
        with store._pool.read() as raw:
            assert raw.execute("SELECT number FROM traces").fetchall() == [(4,)]
    assert [one for one in check(tmp_path) if "fingerprint" not in one.what] == []


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


def test_facts_stored_twice_by_an_older_release_are_kept_and_amended_apart(tmp_path):
    raw = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    migrations.migrate(raw, tmp_path, steps=migrations.STEPS[:4])
    for n, content in enumerate(["Water is wet.", "water is wet", "Fire is hot."]):
        row = ("t", f"f{n}", content, n + 1, encode(Fact(f"f{n}", content)))
        raw.execute("INSERT INTO facts VALUES (?, ?, ?, ?, ?)", row)
    raw.close()
    store = SqliteStore(tmp_path)
    for id in ("f0", "f1"):
        store.amend_fact("t", id, lambda fact: replace(fact, trust=0.9))
    assert [(fact.id, fact.trust) for fact in store.facts("t")] == [
        ("f0", 0.9),
        ("f1", 0.9),
        ("f2", 0.5),
    ]
    assert store.save_fact("t", Fact("f3", "WATER is wet")).id == "f0"
    assert store.save_fact("t", Fact("f3", "fire is hot")).id == "f2"
    store.close()


def test_edges_of_an_older_release_are_found_without_case(tmp_path):
    raw = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    before = migrations.STEPS[: migrations.STEPS.index(migrations.NODE_KEYS)]
    migrations.migrate(raw, tmp_path, steps=before)
    raw.execute("INSERT INTO edges VALUES ('t', 'Öl-Depot', 'uses', 'Ledger', 0.5, 'a.md')")
    raw.close()
    store = SqliteStore(tmp_path)
    edge = Edge("Öl-Depot", "uses", "Ledger", 0.5, "a.md")
    assert store.edges_touching("t", ["öl-depot"]) == [edge]
    assert store.edges_touching("t", ["LEDGER"]) == [edge]
    assert check(tmp_path) == []
    store.close()


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


def test_one_damaged_trace_does_not_keep_a_store_from_being_upgraded():
    assert summarize_json("{") == summarize_json("[]") == summarize_json('{"id": "old"}') == ""


def test_a_store_opened_by_a_relative_path_is_found_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Millgate.open("kb") as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        gate.add([{"id": "b", "text": "Parcels leave at noon."}])
        assert [chunk.id for chunk in gate.context("refunds").chunks] == ["a"]
