"""A slip costs no data: what was surely meant otherwise is an error that helps, and what may be meant is done."""

import pytest

from millgate import Millgate
from millgate.errors import InputError
from millgate.text.fingerprint import WindowFingerprint

ROWS = [{"id": name, "text": f"The letter {name} stands here."} for name in "policy"]


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        gate.add(ROWS)
        yield gate


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"documents": None},
        {"documents": None, "chunks": None},
        {"documents": "policy"},
        {"chunks": "policy"},
        {"documents": ["p"], "everything": True},
        {"everything": "no"},
    ],
    ids=str,
)
def test_nothing_is_removed_by_a_call_that_does_not_name_what(gate, given):
    with pytest.raises(InputError) as refused:
        gate.remove(**given)
    assert refused.value.hint or "true or false" in str(refused.value)
    assert gate.collections()["main"].documents == len(ROWS)


def test_an_empty_list_of_names_removes_nothing(gate):
    assert gate.remove(documents=[]) == 0
    assert gate.collections()["main"].documents == len(ROWS)


def test_everything_goes_if_that_is_said(gate):
    assert gate.remove(everything=True) == len(ROWS)
    assert dict(gate.collections()) == {}


def test_one_pattern_to_exclude_is_not_taken_for_its_letters(gate, tmp_path):
    (tmp_path / "notes.md").write_text("Cranes are yellow.")
    with pytest.raises(InputError, match="exclude"):
        gate.add_files(tmp_path, exclude="*.log")
    assert gate.add_files(tmp_path, exclude=["*.log"]).documents == 1


TEXTS = ["TCP/IP", "Node.js", "n/a", "and/or", "README.md", "/etc/hosts"]


def test_a_text_in_a_list_is_a_text_whatever_it_looks_like(gate):
    assert gate.add(TEXTS, collection="said").documents == len(TEXTS)
    assert gate.add("TCP/IP is a family of protocols.", collection="said").documents == 1
    assert gate.add("Node.js", collection="other").documents == 1


def test_a_name_of_a_file_alone_is_not_stored_as_its_letters(gate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    with pytest.raises(InputError, match="name of a file") as refused:
        gate.add("docs/")
    assert "add_files('docs/')" in refused.value.hint


def test_a_window_that_cannot_be_read_is_an_error_and_not_an_empty_window(gate):
    for window in ({"messages": []}, {"a": 1}, [{"author": "Ann", "message": "Hello."}]):
        with pytest.raises(InputError, match="window"):
            gate.context("letter p", window=window)


def test_one_message_and_a_fingerprint_are_windows(gate):
    seen = "The letter p stands here."
    for window in (
        {"role": "user", "content": seen},
        WindowFingerprint.of([seen]).to_json(),
        [{"role": "user", "content": seen}, {"role": "user"}],
    ):
        context = gate.context("letter p", window=window)
        assert not context.degraded
        assert "p" not in [chunk.id for chunk in context.chunks]
