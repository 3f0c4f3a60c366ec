"""`millgate guard --transcript`: circles in recorded sessions, of agents and of logs."""

import json

import pytest
from bench.fixtures.sessions import APIS, healthy_session, looping_session, render


@pytest.fixture
def record(tmp_path):
    def write(messages):
        path = tmp_path / "session.jsonl"
        path.write_text("\n".join(map(json.dumps, messages)))
        return str(path)

    return write


@pytest.mark.parametrize("api", APIS)
def test_the_rungs_of_a_looping_session_are_told(run, record, api):
    session, _ = looping_session(2, period=2, copies=8)
    code, out, err = run("guard", "--transcript", record(render(session, api)))
    assert code == 3
    assert [line.split(": ")[1] for line in out.splitlines()] == ["note", "list", "end"]
    assert "3 rungs reached in 1 session," in err


def test_a_healthy_session_gives_exit_code_0(run, record):
    code, out, _ = run("guard", "--transcript", record(render(healthy_session(4), "chat")))
    assert (code, out) == (0, "")


def test_json_holds_what_was_tried(run, record):
    session, _ = looping_session(2, period=1, copies=3)
    code, out, _ = run("guard", "--json", "--transcript", record(render(session, "messages")))
    assert code == 3
    (circle,) = json.loads(out)["sessions"][0]["circles"]
    assert (circle["rung"], circle["period"], circle["copies"]) == ("note", 1, 3)
    assert circle["tried"][0]["tool"]


def test_a_log_of_requests_is_read_too(run, record):
    session, _ = looping_session(2, period=1, copies=5)
    messages = render(session, "chat")
    requests = [{"messages": messages[:end]} for end in range(1, len(messages) + 1)]
    code, out, _ = run("guard", "--transcript", record(requests))
    assert code == 3
    assert len(out.splitlines()) == 2


def test_a_missing_file_is_told(run):
    code, _, err = run("guard", "--transcript", "nowhere.jsonl")
    assert code == 2
    assert "there is no file" in err


@pytest.mark.parametrize(("copies", "ended"), [(3, False), (8, True)])
def test_json_says_whether_the_turn_would_have_ended(run, record, copies, ended):
    session, _ = looping_session(2, period=1, copies=copies)
    _, out, _ = run("guard", "--json", "--transcript", record(render(session, "chat")))
    assert json.loads(out)["sessions"][0]["ended"] is ended


def test_json_of_a_healthy_session_gives_exit_code_0(run, record):
    code, out, _ = run("guard", "--json", "--transcript", record(render(healthy_session(4), "chat")))  # fmt: skip
    assert (code, json.loads(out)["sessions"][0]["circles"]) == (0, [])
