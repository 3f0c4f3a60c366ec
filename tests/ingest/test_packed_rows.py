"""Short rows of a large table share documents; whatever else is a row keeps its own."""

import json

import pytest

from millgate.gateway import Millgate
from millgate.ingest import tables
from millgate.ingest.files import add_files
from millgate.ingest.load import add_rows
from millgate.stores.temporary import TemporaryStore

LARGE = 100


@pytest.fixture
def store():
    return TemporaryStore()


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes a CSV file of lines, in a folder where a hundred rows are a large table."""
    monkeypatch.setattr(tables, "PACKED_FROM", LARGE)

    def write(*lines):
        (tmp_path / "t.csv").write_text("".join(f"{line}\n" for line in lines))

    return write


@pytest.fixture
def add(store, tmp_path):
    return lambda **options: add_files(store, "t", [tmp_path], root=tmp_path, **options)


def numbered(count, start=0):
    return [f"r{n},word{n}" for n in range(start, start + count)]


def test_a_hundred_thousand_rows_are_ten_documents(store, tmp_path):
    (tmp_path / "t.csv").write_text("n\n" + "7\n" * 100_000)
    summary = add_files(store, "t", [tmp_path], root=tmp_path)
    assert (summary.documents, summary.packed, summary.skips) == (10, 100_000, 0)
    assert summary.chunks < 2_000


def test_a_chunk_holds_the_ids_and_texts_of_its_rows_and_their_numbers(store, table, add):
    table("id,text", *numbered(250))
    summary = add()
    chunks = list(store.scan("t", "main"))
    assert (summary.documents, summary.packed, summary.chunks) == (3, 250, len(chunks))
    assert {chunk.document for chunk in chunks} == {"t.csv:2", "t.csv:102", "t.csv:202"}
    rows = "\n\n".join(chunk.text for chunk in chunks).split("\n\n")
    assert rows == [f"id: r{n}\nword{n}" for n in range(250)]
    for chunk in chunks:
        first, last = map(int, chunk.metadata["rows"].split("-"))
        assert chunk.text.startswith(f"id: r{first - 2}\n")
        assert chunk.text.endswith(f"word{last - 2}")


def test_a_packed_row_is_found_by_its_id(tmp_path, table):
    table("id,text", *numbered(LARGE))
    with Millgate.open(":memory:") as gate:
        gate.add_files(tmp_path / "t.csv")
        assert "id: r42\nword42" in gate.context("what is r42?").text


def test_a_smaller_table_and_one_of_long_rows_are_not_packed(store, table, add):
    for lines in (numbered(LARGE - 1), [f"r{n},{f'long {n} ' * 30}" for n in range(LARGE + 9)]):
        table("id,text", *lines)
        assert add().packed == 0
        assert len(store.digests("t", "main")) == len(lines)
        store.remove("t", "main")


def test_a_long_row_of_a_large_table_keeps_its_id(store, table, add):
    table("id,text", *numbered(150), "long," + "many words " * 30, *numbered(50, 150))
    assert add().packed == 200
    assert set(store.digests("t", "main")) == {"t.csv:2", "t.csv:102", "long"}


def test_rows_that_differ_in_their_metadata_stay_apart(store, table, add):
    table("id,text,page", *(f"{row},{n}" for n, row in enumerate(numbered(120))))
    assert add().packed == 0
    assert {chunk.metadata["page"] for chunk in store.scan("t", "main")} == set(map(str, range(120)))  # fmt: skip


def test_a_changed_row_rewrites_its_document_and_one_that_is_gone_goes(store, table, add):
    table("id,text", *numbered(250))
    add()
    assert add().unchanged == 3
    table("id,text", *numbered(220), "r220,changed", *numbered(28, 221))
    again = add()
    assert (again.unchanged, again.documents) == (2, 1)
    text = "\n\n".join(chunk.text for chunk in store.scan("t", "main"))
    assert "id: r220\nchanged" in text
    assert "word220" not in text
    assert "word249" not in text


@pytest.mark.parametrize("head", ["id,text", "name,text"])
def test_no_row_is_there_twice_after_a_table_grew_or_shrank(store, table, add, head):
    for count in (LARGE - 10, LARGE + 10, LARGE - 10):
        table(head, *numbered(count))
        add()
        text = "\n\n".join(chunk.text for chunk in store.scan("t", "main"))
        assert [text.count(f"word{n}") for n in range(20, 90)] == [1] * 70


def test_a_bad_line_costs_only_itself_among_packed_rows(store, tmp_path, table, add):
    lines = [json.dumps({"text": f"word{n}"}) for n in range(LARGE)]
    (tmp_path / "t.jsonl").write_text("\n".join([*lines, "{broken", *lines]))
    summary = add()
    assert summary.packed == 2 * LARGE
    assert [skip.what for skip in summary.skipped] == [f"t.jsonl:{LARGE + 1}"]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"text": "Hello.", "speaker": "Ann"}, ""),
        ({"text": "[8 May 2023] Ann: Hello."}, ""),
        ({"text": "Hello."}, "conversation"),
    ],
)
def test_turns_are_not_packed(store, tmp_path, table, add, row, kind):
    (tmp_path / "t.jsonl").write_text("\n".join([json.dumps(row)] * 150))
    assert (add(kind=kind).packed, len(store.digests("t", "main"))) == (0, 150)


def test_rows_that_a_program_adds_keep_their_ids(store, table):
    rows = [{"id": f"r{n}", "text": f"word{n}"} for n in range(2 * LARGE)]
    assert add_rows(store, "t", rows).packed == 0
    assert set(store.digests("t", "main")) == {row["id"] for row in rows}
