"""`millgate xray`: a screen, a page, or JSON; and nothing else is written."""

import gzip
import json
import os

import pytest
from bench.fixtures.sessions import healthy_session, render


def session(folder, text="x"):
    lines = (json.dumps(message) for message in render(healthy_session(1), "chat"))
    path = folder / "s.jsonl"
    path.write_text("\n".join([*lines, text]))
    return path


def test_a_screen_and_a_page(run, tmp_path):
    session(tmp_path)
    code, out, _ = run("xray", "s.jsonl")
    assert code == 0
    assert "1 session in 1 file," in out
    assert "1 line skipped" in out
    assert len(out.splitlines()) < 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["millgate-xray.html", "s.jsonl"]
    assert run("xray", "s.jsonl")[0] == 0, "its own page is written over"


def test_a_session_of_one_word_without_tools_has_one_token_and_no_table_of_tools(run, tmp_path):
    (tmp_path / "s.jsonl").write_text('{"role": "user", "content": "a"}\n')
    out = run("xray", "s.jsonl")[1]
    page = (tmp_path / "millgate-xray.html").read_text()
    assert "\n1 token entered windows" in out
    assert "1 token, " in page
    assert "tool results  " not in out
    assert "Tool results by tool" not in page


def test_json_writes_no_page(run, tmp_path):
    session(tmp_path)
    code, out, _ = run("xray", str(tmp_path), "--json")
    assert code == 0
    found = json.loads(out)
    assert found["sessions"][0]["windows"][0]["by_kind"]["human"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_file_that_is_no_page_is_not_written_over(run, tmp_path):
    session(tmp_path)
    code, _, err = run("xray", "s.jsonl", "--html", "s.jsonl")
    assert code == 2
    assert "not a page of millgate xray" in err


def test_a_missing_path_is_told(run):
    code, _, err = run("xray", "nowhere")
    assert code == 2
    assert "there is no file or folder nowhere" in err


def test_control_characters_stay_out_of_the_terminal(run, tmp_path):
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "a\x1b[31m[bold]", "arguments": "{}"},
    }
    rows = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": "x"}]  # fmt: skip
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _, out, _ = run("xray", "s.jsonl", "--no-html")
    assert "\x1b[31m" not in out
    assert "[bold]" in out


def test_a_page_is_not_written_through_a_link_that_leads_nowhere(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"role": "user", "content": "hi"}\n')
    (tmp_path / "millgate-xray.html").symlink_to(tmp_path / "elsewhere.html")
    code, _, err = run("xray", "a.jsonl")
    assert code == 2
    assert "link to nothing" in err
    assert not (tmp_path / "elsewhere.html").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in a folder")
def test_a_pipe_in_the_place_of_the_page_is_not_waited_for(run, tmp_path):
    session(tmp_path)
    os.mkfifo(tmp_path / "millgate-xray.html")
    code, _, err = run("xray", ".")
    assert code == 2
    assert "is not a page of millgate xray" in err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_page_is_its_owners_alone(run, tmp_path):
    session(tmp_path)
    before = os.umask(0o022)
    try:
        run("xray", "s.jsonl")
    finally:
        os.umask(before)
    assert (tmp_path / "millgate-xray.html").stat().st_mode & 0o777 == 0o600


def test_a_run_that_finds_no_session_leaves_the_page_as_it_was(run, tmp_path):
    session(tmp_path)
    run("xray", "s.jsonl")
    page = (tmp_path / "millgate-xray.html").read_bytes()
    (tmp_path / "other.jsonl").write_text('{"unknown": 1}\n')
    code, out, err = run("xray", "other.jsonl")
    assert (code, out) == (2, "")
    assert "no session was found in 1 file" in err
    assert "nothing was understood in 1 file: other.jsonl" in err
    assert (tmp_path / "millgate-xray.html").read_bytes() == page


def test_packed_sessions_are_read_and_damaged_ones_counted(run, tmp_path):
    plain = session(tmp_path)
    (tmp_path / "packed").mkdir()
    packed = tmp_path / "packed" / "s.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "packed" / "cut.jsonl.gz").write_bytes(packed.read_bytes()[:40])
    whole = json.loads(run("xray", "s.jsonl", "--json")[1])
    code, out, _ = run("xray", "packed", "--json")
    assert code == 0
    assert json.loads(out)["sessions"][0]["added"] == whole["sessions"][0]["added"]
