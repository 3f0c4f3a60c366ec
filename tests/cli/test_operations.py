"""The commands that look after a store."""

import json

from millgate.gateway import Millgate


def fill():
    with Millgate.open("kb") as gate:
        gate.add({"id": f"p{n}", "text": f"Refund {n} is paid by card."} for n in range(20))


def test_backup_restore_export_import_compact_and_doctor(run, tmp_path):
    fill()
    code, out, _ = run("store", "backup", "copy", "--store", "kb")
    assert (code, "20 chunks, checked" in out) == (0, True)
    assert json.loads(run("store", "backup", "copy2", "--store", "kb", "--json")[1])["chunks"] == 20
    assert run("store", "restore", "copy", "--store", "kb")[0] == 2
    assert "20 chunks put back" in run("store", "restore", "copy", "--store", "kb", "--replace")[1]
    assert (
        run("store", "export", "--store", "kb", "--output", "all.jsonl")[1]
        == "all.jsonl: 20 records\n"
    )
    assert len(run("store", "export", "--store", "kb")[1].splitlines()) == 20
    assert run("store", "import", "all.jsonl", "--store", "kb2")[1] == "20 documents\n"
    assert "became" in run("store", "compact", "--store", "kb2")[1]
    code, out, _ = run("doctor", "--store", "kb2")
    assert (code, "is sound" in out, "as it should be" in out) == (0, True, True)


def test_a_doctor_who_finds_something_ends_with_one_and_repairs_it(run, tmp_path):
    fill()
    import sqlite3

    raw = sqlite3.connect(tmp_path / "kb" / "millgate.db", isolation_level=None)
    raw.execute("UPDATE collections SET chunks = 3")
    raw.close()
    code, out, _ = run("doctor", "--store", "kb")
    assert code == 1
    assert "the size of default/main is wrong" in out
    assert "doctor --repair" in out
    code, out, _ = run("doctor", "--store", "kb", "--repair")
    assert (code, "repaired: the size" in out) == (0, True)
    assert run("doctor", "--store", "kb")[0] == 0


def test_a_store_in_memory_has_nothing_to_look_after(run):
    assert run("store", "backup", "copy", "--store", ":memory:")[0] == 2
