"""A file that has not changed is not read again; whatever else changed, it is."""

import os

import pytest

from millgate.gateway import Millgate
from millgate.ingest import files as load
from millgate.ingest.files import NAME


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "docs"
    place.mkdir()
    (place / "a.md").write_text("one")
    (place / "b.bin").write_bytes(b"\0\1")
    (place / "rows.csv").write_text("name\nAda\nBo\n")
    for file in place.iterdir():
        os.utime(file, (1e9, 1e9))
    return place


@pytest.fixture
def gate(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        yield gate


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that are read."""
    seen, read = [], load.read

    def spy(file, **rest):
        seen.append(file.path.name)
        return read(file, **rest)

    monkeypatch.setattr(load, "read", spy)
    return seen


def test_an_unchanged_folder_is_not_read_again_and_tells_the_same(gate, folder, reads):
    first = gate.add_files(folder)
    assert (first.documents, len(reads)) == (3, 3)
    reads.clear()
    second = gate.add_files(folder)
    assert reads == []
    assert (second.documents, second.unchanged, second.skipped) == (0, 3, first.skipped)
    assert gate.add_files(folder, prune=True).removed == 0
    assert gate.context("Ada").sources


def test_files_that_are_gone_are_counted_until_they_are_pruned(gate, folder):
    gate.add_files(folder)
    (folder / "a.md").unlink()
    (folder / "b.bin").unlink()
    kept = folder / "rows.csv"
    assert [gate.add_files(kept).missing, gate.add_files(folder).missing] == [0, 1]
    assert gate.add_files(folder, prune=True).missing == 0
    assert gate.add_files(folder).missing == 0


def test_only_its_owner_may_read_the_list(gate, folder):
    gate.add_files(folder)
    assert (gate.folder / NAME).stat().st_mode & 0o777 == 0o600


def change_time(gate, folder):
    os.utime(folder / "a.md", (1e9 + 1, 1e9 + 1))


def change_text(gate, folder):
    (folder / "a.md").write_text("two")


def remove_document(gate, folder):
    gate.remove(documents=["docs/a.md"])


def replace_document(gate, folder):
    gate.add({"id": "docs/a.md", "text": "other"})


@pytest.mark.parametrize("change", [change_time, change_text, remove_document, replace_document])
def test_a_file_is_read_again_after_a_change_of_it_or_of_its_document(gate, folder, reads, change):
    gate.add_files(folder)
    change(gate, folder)
    reads.clear()
    gate.add_files(folder)
    assert reads == ["a.md"]
    assert gate.document("docs/a.md")[0].text == (folder / "a.md").read_text()


def test_a_file_that_was_just_written_is_read_again(gate, folder, reads):
    (folder / "a.md").write_text("new")
    gate.add_files(folder)
    reads.clear()
    assert gate.add_files(folder).unchanged == 3
    assert reads == ["a.md"]


def test_a_damaged_list_is_made_anew(gate, folder, reads):
    gate.add_files(folder)
    (gate.folder / NAME).write_text("{")
    reads.clear()
    assert gate.add_files(folder).unchanged == 3
    assert len(reads) == 3


def test_another_tenant_and_another_collection_read_for_themselves(gate, folder, reads):
    gate.add_files(folder)
    assert gate.add_files(folder, collection="more").documents == 3
    assert gate.for_tenant("acme").add_files(folder).documents == 3


def test_files_whose_rows_have_ids_of_their_own_are_always_read(gate, folder, reads):
    for name in ("x.jsonl", "y.jsonl"):
        (folder / name).write_text('{"id": "same", "text": "in ' + name + '"}')
        os.utime(folder / name, (1e9, 1e9))
    gate.add_files(folder)
    reads.clear()
    gate.add_files(folder)
    assert reads == ["x.jsonl", "y.jsonl"]
    assert gate.document("same")[0].text == "in y.jsonl"
