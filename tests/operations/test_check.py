"""Checking finds what is wrong and repairs what is derived; compacting gives space back and loses nothing."""

import sqlite3

import pytest

from headgate.gateway import Headgate
from headgate.operations.check import check
from headgate.operations.compact import compact
from headgate.operations.doctor import examine
from headgate.settings import Settings
from headgate.stores.sqlite.store import FILE, SqliteStore
from headgate.testing.samples import document, follow


@pytest.fixture
def kb(tmp_path):
    with Headgate.open(tmp_path) as gate:
        gate.add({"id": f"p{n}", "text": f"Refund {n} is paid by card."} for n in range(1200))
        gate.add_turns("s", ["How are refunds paid?"])
    return tmp_path


def change(folder, sql):
    raw = sqlite3.connect(folder / FILE, isolation_level=None)
    raw.execute(sql)
    raw.close()


def test_a_sound_store_has_no_findings(kb):
    assert check(kb) == []


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("UPDATE sizes SET chunks = chunks + 1 WHERE collection = 'main'", "size of default/main"),
        ("DELETE FROM attachments WHERE id = 'p7'", "1 chunks of default/main lack"),
        ("UPDATE attachments SET value = x'00' WHERE id IN ('p7', 'p8')", "2 chunks of"),
        ("INSERT INTO attachments VALUES ('default', 'main', 'gone', 'k', x'00')", "1 bytes"),
        ("INSERT INTO removed VALUES ('default', 'main', 'p7', 1)", "1 removals"),
        ("DELETE FROM index_marks", "was not made from this store"),
    ],
)
def test_what_is_derived_is_repaired(kb, sql, says):
    change(kb, sql)
    (found,) = [one for one in check(kb) if says in one.what]
    assert not found.repaired
    assert all(one.repaired for one in check(kb, repair=True))
    assert check(kb) == []
    with Headgate.open(kb) as gate:
        assert gate.context("refund 7 card").chunks


def test_an_index_of_another_release_is_not_damaged(kb):
    for manifest in (kb / "index").rglob("manifest.json"):
        manifest.write_text(manifest.read_text().replace('"format": 4', '"format": 1'))
    assert check(kb) == []
    with Headgate.open(kb) as gate:
        assert gate.context("refund 7 card").chunks


def test_a_damaged_index_is_found_and_made_anew(kb):
    segment = next((kb / "index").rglob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[-100] ^= 0xFF
    segment.write_bytes(data)
    assert "is damaged" in check(kb)[0].what
    check(kb, repair=True)
    assert check(kb) == []


def test_a_large_index_file_is_checked_too(kb, monkeypatch):
    monkeypatch.setattr("headgate.index.files.CHECKED", 0)
    segment = next((kb / "index").rglob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[-100] ^= 0xFF
    segment.write_bytes(data)
    assert "does not match its checksum" in check(kb)[0].what


def test_compacting_gives_space_back_and_the_index_still_agrees(kb):
    with Headgate.open(kb) as gate:
        gate.add({"id": f"x{n}", "text": f"Page {n}. " + "word " * 300} for n in range(1500))
        gate.remove(documents=[f"x{n}" for n in range(1500)])
    done = compact(kb)
    assert done.after < done.before / 2
    assert done.removals > 1400
    assert check(kb) == []
    store = SqliteStore(kb)
    assert len(follow(store, "default", "main", limit=500)) == 1200
    store.close()
    with Headgate.open(kb) as gate:
        made = gate.context("refund 7 card")
        assert made.degraded == ()
        assert gate.index().count == 1200


def test_a_collection_is_emptied_in_turns_that_let_others_in(tmp_path, monkeypatch):
    monkeypatch.setattr("headgate.stores.sqlite.documents._CLEAR", 10)
    store = SqliteStore(tmp_path)
    store.put("t", [document(f"d{n}", "one", "two", "three") for n in range(20)])
    head = store.head("t", "main")
    assert store.remove("t", "main") == 60
    assert store.head("t", "main") == head + 60
    assert store.collections("t") == {}
    assert follow(store, "t", "main") == {}
    assert store.query("SELECT count(*) FROM documents") == [(0,)]
    store.close()


def test_the_doctor_says_what_is_wrong_and_what_to_do(kb, tmp_path):
    found = {advice.part: advice for advice in examine(Settings(), kb)}
    assert found["store"].state == "ok"
    assert "is sound" in found["store"].what
    (kb / FILE).write_bytes(b"this is not a database" * 500)
    store = next(a for a in examine(Settings(), kb) if a.part == "store")
    assert (store.state, bool(store.todo)) == ("problem", True)
    assert next(a for a in examine(Settings(), tmp_path / "none") if a.part == "store").state == "ok"  # fmt: skip
