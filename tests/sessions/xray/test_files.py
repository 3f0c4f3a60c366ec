"""The files of recorded sessions: found, read line by line, and passed over where they cannot be read."""

import os

import pytest

from millgate.errors import InputError, NotFound
from millgate.sessions.xray import files
from millgate.sessions.xray.files import Lines, find


def test_a_file_of_one_value_gives_its_elements_or_itself(tmp_path):
    listed, alone = tmp_path / "a.json", tmp_path / "b.json"
    listed.write_text('[{"a": 1}, {"a": 2}]')
    alone.write_text('{"a": 3}')
    assert list(Lines(listed)) == [{"a": 1}, {"a": 2}]
    assert list(Lines(alone)) == [{"a": 3}]


def test_what_was_read_and_skipped_is_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\nhalf {\n{"a": 2}\n')
    lines = Lines(path)
    assert list(lines) == [{"a": 1}, {"a": 2}]
    assert (lines.read, lines.skipped, lines.size) == (2, 1, 9 + 7 + 9)
    gone = Lines(tmp_path / "gone.jsonl")
    assert list(gone) == []
    assert gone.skipped == 1


@pytest.mark.parametrize(("limit", "kept"), [(9, [{"a": 1}, {"b": 2}]), (8, [{"b": 2}])])
def test_a_line_beyond_the_limit_is_passed_over_and_the_next_one_read(tmp_path, monkeypatch, limit, kept):  # fmt: skip
    monkeypatch.setattr(files, "MAX_LINE", limit)
    path = tmp_path / "a.jsonl"
    path.write_text('{"a":1 }\n{"b":2}\n')
    lines = Lines(path)
    assert list(lines) == kept
    assert lines.skipped == 2 - len(kept)


def test_session_files_of_a_folder_come_oldest_first(tmp_path):
    for age, name in enumerate(["b.jsonl", "a.json", "deep/c.ndjson", "notes.txt"]):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("{}")
        os.utime(file, (1_000 - age, 1_000 - age))
    assert [file.name for file in find(tmp_path, home=tmp_path)] == ["c.ndjson", "a.json", "b.jsonl"]  # fmt: skip
    assert find(tmp_path / "notes.txt", home=tmp_path) == [tmp_path / "notes.txt"]


def test_where_there_are_none_the_error_says_where_was_looked(tmp_path):
    with pytest.raises(NotFound, match="no recorded sessions"):
        find(None, home=tmp_path)
    with pytest.raises(NotFound, match="there is no file or folder"):
        find(tmp_path / "gone", home=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no session files"):
        find(tmp_path / "empty", home=tmp_path)
