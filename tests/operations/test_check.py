"""Checking finds what is wrong and repairs what is derived; compacting gives space back and loses nothing."""

import sqlite3
import zlib

import pytest

from millgate.errors import StoreError
from millgate.gateway import Millgate
from millgate.operations.check import check
from millgate.operations.compact import compact
from millgate.operations.doctor import examine
from millgate.operations.transfer import export_lines
from millgate.settings import Settings
from millgate.stores.sqlite.store import FILE, SqliteStore
from millgate.testing.samples import document, follow


@pytest.fixture
def kb(tmp_path):
    with Millgate.open(tmp_path) as gate:
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
        (
            "UPDATE collections SET chunks = chunks + 1 WHERE collection = 'main'",
            "size of default/main",
        ),
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
    with Millgate.open(kb) as gate:
        assert gate.context("refund 7 card").chunks


def test_an_index_of_another_release_is_not_damaged(kb):
    for manifest in (kb / "index").rglob("manifest.json"):
        manifest.write_text(manifest.read_text().replace('"format": 4', '"format": 1'))
    assert check(kb) == []
    with Millgate.open(kb) as gate:
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
    monkeypatch.setattr("millgate.index.files.CHECKED", 0)
    segment = next((kb / "index").rglob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[-100] ^= 0xFF
    segment.write_bytes(data)
    assert "does not match its checksum" in check(kb)[0].what


def test_compacting_gives_space_back_and_the_index_still_agrees(kb):
    with Millgate.open(kb) as gate:
        gate.add({"id": f"x{n}", "text": f"Page {n}. " + "word " * 300} for n in range(1500))
        gate.remove(documents=[f"x{n}" for n in range(1500)])
    done = compact(kb)
    assert done.after < done.before / 2
    assert done.removals > 1400
    assert check(kb) == []
    store = SqliteStore(kb)
    assert len(follow(store, "default", "main", limit=500)) == 1200
    store.close()
    with Millgate.open(kb) as gate:
        made = gate.context("refund 7 card")
        assert made.degraded == ()
        assert gate.index().count == 1200


def test_a_collection_is_emptied_in_turns_that_let_others_in(tmp_path, monkeypatch):
    monkeypatch.setattr("millgate.stores.sql.documents._CLEAR", 10)
    store = SqliteStore(tmp_path)
    store.put("t", [document(f"d{n}", "one", "two", "three") for n in range(20)])
    head = store.head("t", "main")
    assert store.remove("t", "main") == 60
    assert store.head("t", "main") == head + 60
    assert store.collections("t") == {}
    assert follow(store, "t", "main") == {}
    assert store.query("", "SELECT count(*) FROM documents") == [(0,)]
    store.close()


def test_the_doctor_says_what_is_wrong_and_what_to_do(kb, tmp_path):
    found = {advice.part: advice for advice in examine(Settings(), kb)}
    assert found["store"].state == "ok"
    assert "is sound" in found["store"].what
    (kb / FILE).write_bytes(b"this is not a database" * 500)
    store = next(a for a in examine(Settings(), kb) if a.part == "store")
    assert (store.state, bool(store.todo)) == ("problem", True)
    assert next(a for a in examine(Settings(), tmp_path / "none") if a.part == "store").state == "ok"  # fmt: skip


@pytest.fixture
def records(tmp_path):
    """A store with facts, traces and a review, of which one each is damaged."""
    with Millgate.open(tmp_path, review={"enabled": True, "on_refusal": True}) as gate:
        gate.add([{"id": "p", "text": "Refunds are paid by card.", "metadata": {"url": "u"}}])
        for name in ("Ada", "Ben", "Cleo"):
            gate.remember(f"{name} maintains the ferry.")
            gate.context(f"who is {name}, and how are refunds paid?")
    change(tmp_path, "UPDATE facts SET body = '{\"id\": 3' WHERE body LIKE '%Ben%'")
    change(tmp_path, "UPDATE traces SET body = x'00', summary = '[' WHERE number = 2")
    change(tmp_path, "UPDATE chunks SET metadata = '{'")
    change(tmp_path, "INSERT INTO reviews VALUES ('default', 'r1', 'pending', 1.0, 'no review')")
    return tmp_path


def test_a_damaged_record_costs_itself_alone_and_is_named(records, caplog):
    with Millgate.open(records) as gate:
        assert sorted(fact.content[:4] for fact in gate.facts.all()) == ["Ada ", "Cleo"]
        assert {hit.fact.content[:4] for hit in gate.recall("ferry")} == {"Ada ", "Cleo"}
        assert len(gate.traces()) == 3
        assert gate.reviews.reviews() is not None
        context = gate.context("how are refunds paid?")
        assert (context.chunks[0].id, context.degraded) == ("p", ())
    assert "left out fact f-" in caplog.text
    assert "left out review r1" in caplog.text
    store = SqliteStore(records)
    lines = list(export_lines(store))
    store.close()
    assert sum('"kind":"fact"' in line for line in lines) == 2
    assert sum('"kind":"document"' in line for line in lines) == 1


def test_checking_names_records_that_cannot_be_read(records):
    found = " ".join(finding.what for finding in check(records))
    assert "1 facts of default cannot be read: f-" in found
    assert "1 traces of default cannot be read: " in found
    assert "1 reviews of default cannot be read: r1" in found
    assert "the metadata of 1 chunks or documents cannot be read" in found


def test_a_trace_of_another_release_is_said_to_be_one(tmp_path):
    with Millgate.open(tmp_path) as gate:
        gate.add([{"id": "p", "text": "Refunds are paid by card."}])
        id = gate.context("how are refunds paid?").trace.id
    body = zlib.compress(b'{"trace": {"id": "old"}}')
    raw = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    raw.execute("UPDATE traces SET body = ?", (body,))
    raw.close()
    with (
        Millgate.open(tmp_path) as gate,
        pytest.raises(StoreError, match="another release wrote it"),
    ):
        gate.trace(id)
