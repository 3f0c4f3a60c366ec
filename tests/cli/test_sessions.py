"""`millgate sessions`: what was spent, and who goes on."""

import json
import time

import pytest
from tests.service.calls import MODEL, broken_session

from millgate import Millgate
from millgate.types import Amount


@pytest.fixture(autouse=True)
def spent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "millgate.toml").write_text(
        "[fuse.caps]\nsession = {tokens = 100}\nkey = {tokens = 100}\n"
    )
    monkeypatch.setenv("MILLGATE_CONFIG", "millgate.toml")
    with Millgate.open() as gate:
        book = gate.spending
        for session, size in (("a", 40), ("b", 100)):
            book.settle(book.hold(session, "k1" * (session == "b"), Amount(size)), Amount(size))


def test_sessions_are_listed_with_state_and_forecast(run):
    code, out, _ = run("sessions", "list")
    assert code == 0
    lines = {line.split()[1]: line for line in out.splitlines()[1:]}
    assert "open" in lines["a"]
    assert "full in 2 calls" in lines["a"]
    assert "paused" in lines["b"]
    rows = json.loads(run("sessions", "list", "--json", "--scope", "all")[1])
    assert {(row["scope"], row["name"]) for row in rows} == {
        ("session", "a"),
        ("session", "b"),
        ("key", "k1"),
    }


def test_a_session_and_a_key_are_resumed(run):
    assert run("sessions", "resume", "b")[1] == "resumed session b\n"
    assert run("sessions", "resume", "--key", "k1")[1] == "resumed key k1\n"
    rows = json.loads(run("sessions", "list", "--json", "--scope", "all")[1])
    assert {row["name"]: row["tokens"] for row in rows} == {"a": 40, "b": 0, "k1": 0}


def test_bad_names_are_told(run):
    assert "there is no session 'x'" in run("sessions", "resume", "x")[2]
    assert "name one session" in run("sessions", "resume")[2]
    assert "name one session" in run("sessions", "resume", "a", "--all")[2]


def test_a_row_holds_the_reading_if_there_is_a_cap(run):
    (row,) = [row for row in json.loads(run("sessions", "list", "--json")[1]) if row["name"] == "a"]
    assert (row["reading"]["used"], row["reading"]["cap"], row["reading"]["state"]) == (40, 100, "open")  # fmt: skip
    assert json.loads(run("sessions", "resume", "b", "--json")[1])["reading"] is None


@pytest.mark.parametrize("named", [[], ["a", "--all"], ["--key", "k1", "--all"], ["a", "--key", "k1"]])  # fmt: skip
def test_exactly_one_spender_is_resumed_at_a_time(run, named):
    code, _, err = run("sessions", "resume", *named)
    assert code == 2
    assert "name one session" in err


@pytest.fixture
def traced(spent):
    with Millgate.open() as gate:
        for trace in broken_session(now=time.time() - 3_600):
            gate.save_trace(trace)


def test_costs_are_listed_by_model_with_what_was_paid_again(run, traced):
    code, out, _ = run("costs", "--by", "model")
    assert code == 0
    assert MODEL in out
    (one,) = json.loads(run("costs", "--json")[1]).values()
    assert (one["calls"], one["breaks"]) == (11, 3)
    assert run("costs", "--days", "0.01")[1] == "no model call was traced yet\n"


def test_the_status_has_a_line_for_the_week(run, traced):
    out = run("status")[1]
    assert "default: last 7 days: 11 model calls, about $1." in out
    assert "the cache broke 3 times" in out
    assert json.loads(run("status", "--json")[1])["last_week"]["default"]["breaks"] == 3


def test_why_marks_the_calls_that_broke_the_cache_and_says_why(run, traced):
    code, out, err = run("why", "--session", "parser")
    assert code == 0
    assert sum(line.count(" !") for line in out.splitlines()) == 3
    assert "!: the provider's cache broke" in err
    shown = run("why", "parser-03")[1]
    assert "message 4 (result of Read src/parser.py) was changed; " in shown
