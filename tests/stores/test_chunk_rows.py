"""Chunks as rows: what putting a document changes, to the row and the character."""

from millgate.stores.chunk_rows import compare, count_bytes, from_row, to_rows
from millgate.types import Chunk, Document


def document(*chunks, title="", metadata=None):
    return Document("d", title=title, metadata=metadata or {}, chunks=chunks)


def chunk(id, text, **more):
    return Chunk(id, text, document="d", **more)


def rows_of(made):
    return {row[0]: row for row in to_rows(made)}


def test_what_is_new_changed_and_gone_is_told_apart():
    before = rows_of(document(chunk("a", "same"), chunk("b", "older"), chunk("c", "gone"), chunk("e", "moved")))  # fmt: skip
    now = document(chunk("a", "same"), chunk("b", "new"), chunk("d", "added"), chunk("e", "moved", position=4))  # fmt: skip
    found = compare({"d": now}, before)
    assert list(found.changed) == ["b", "d", "e"]
    assert list(found.stale) == ["c"]
    assert list(found.outdated) == ["b"], "a new place keeps its attachments"
    assert found.chars == len("new") + len("added") - len("older") - len("gone")


def test_a_new_title_makes_attachments_outdated():
    before = rows_of(document(chunk("a", "same", title="old")))
    now = document(chunk("a", "same", title="new"))
    assert list(compare({"d": now}, before).outdated) == ["a"]


def test_bytes_are_those_of_utf_8():
    assert (count_bytes("abc"), count_bytes("äb", "€"), count_bytes()) == (3, 6, 0)


def test_metadata_goes_to_a_row_and_back():
    shared = {"n": 1}
    made = document(chunk("a", "x", metadata=shared), chunk("b", "x", metadata={"m": 2}), chunk("c", "x"), metadata=shared)  # fmt: skip
    rows = rows_of(made)
    assert [rows[id][5] for id in "abc"] == ['{"n":1}', '{"m":2}', ""]
    assert [dict(from_row("main", rows[id]).metadata) for id in "abc"] == [{"n": 1}, {"m": 2}, {}]
