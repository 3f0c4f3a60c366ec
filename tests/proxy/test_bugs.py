"""A bug of ours in the middle of a call: the client gets what the upstream said, byte for byte."""

import json
from itertools import count

import pytest
from tests.proxy import web
from tests.proxy.upstream import PROSE, UNIT, Pause, answer, chunk, said, told
from tests.waiting import MOST_S

from millgate.calls import bugs
from millgate.guard.detectors import RepeatDetector
from millgate.guard.dialects.chat import ChatDialect
from millgate.guard.dialects.messages import MessagesDialect
from millgate.guard.dialects.usage import UsageSum
from millgate.guard.machine import StreamMachine
from millgate.service.proxy import answer as proxy_answer
from millgate.service.proxy import compaction_steps, prepare, request, steps
from millgate.sessions.conversation import Conversation, Conversations

# A text that is held back for a while, since its second copy begins, and then goes on otherwise.
HELD = (*PROSE, UNIT, UNIT[:50], "new ground, where nobody had dug before. ", *PROSE[::-1])
STREAMS = {
    "/v1/chat/completions": (ChatDialect, said(*HELD, usage=(10, 5))),
    "/v1/messages": (MessagesDialect, told(*HELD)),
}
BEFORE = [
    (request, "loads"),
    (steps, "parse_request"),
    (steps, "last_results"),
    (steps, "session_of"),
    (steps, "read_prompt"),
    (steps, "prepare"),
    (prepare, "find_new"),
    (prepare, "observe"),
    (Conversations, "find"),
    (Conversations, "remember"),
    (Conversation, "measure"),
    (steps, "counts_of"),
    (compaction_steps, "account_service"),
    (proxy_answer, "_request_digest"),
    (StreamMachine, "__init__"),
]
INSIDE = [
    (StreamMachine, "feed"),
    (StreamMachine, "_book"),
    (StreamMachine, "_judge"),
    (StreamMachine, "end"),
    (RepeatDetector, "feed"),
    (UsageSum, "note"),
]
DIALECT = ["read", "write", "usage", "is_error"]
FIELDS = {"stream": True, "max_tokens": 900, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def survives():
    """Bugs are logged, as for users, and not raised."""
    strict = bugs.set_strict(False)
    yield
    bugs.set_strict(strict)


def break_at(monkeypatch, where, name, nth=1):
    """The nth call of a function raises."""
    works, calls = getattr(where, name), count(1)

    def broken(*args, **more):
        if next(calls) == nth:
            raise RuntimeError(f"a bug in {name}")
        return works(*args, **more)

    monkeypatch.setattr(where, name, broken)


def ask(served, model, path, **more):
    return web.post(served.url + path, json={"model": model, **FIELDS, **more}, timeout=MOST_S)


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize(("where", "name"), BEFORE, ids=[name for _, name in BEFORE])
def test_a_bug_before_the_answer_costs_nothing(served, rig, survives, monkeypatch, path, where, name):  # fmt: skip
    _, stream = STREAMS[path]
    model = rig.script(stream)
    break_at(monkeypatch, where, name)
    got = ask(served, model, path)
    assert (got.status_code, got.content) == (200, b"".join(stream))


@pytest.mark.parametrize("nth", [1, 2, 6, 7])
@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize(("where", "name"), [*INSIDE, *((None, name) for name in DIALECT)], ids=lambda v: v if isinstance(v, str) else "")  # fmt: skip
def test_a_bug_in_the_guard_lets_the_stream_pass(
    served, rig, survives, monkeypatch, path, where, name, nth
):
    dialect, stream = STREAMS[path]
    model = rig.script(stream)
    break_at(monkeypatch, where or dialect, name, nth)
    got = ask(served, model, path)
    assert (got.status_code, got.content) == (200, b"".join(stream))


def test_a_bug_while_text_is_held_for_too_long_lets_it_go(rig, survives, monkeypatch):
    served = rig.serve()
    stream = said(*HELD)
    cut = stream.index(chunk({"content": UNIT[:50]})) + 1
    model = rig.script([*stream[:cut], Pause(0.6), *stream[cut:]])
    break_at(monkeypatch, StreamMachine, "tick")
    assert ask(served, model, "/v1/chat/completions").content == b"".join(stream)


def test_a_bug_in_the_guard_of_a_whole_answer_lets_it_pass(served, rig, survives, monkeypatch):
    model = rig.script(answer("".join(HELD)))
    break_at(monkeypatch, proxy_answer, "guard_answer")
    got = ask(served, model, "/v1/chat/completions", stream=False)
    assert got.content == answer("".join(HELD))[1]


def test_a_bug_in_the_observer_does_not_cost_the_end_of_an_answer(rig, survives, monkeypatch):
    served = rig.serve()
    model = rig.script(said(*PROSE))
    break_at(monkeypatch, type(served.proxy.observer), "observe")
    assert ask(served, model, "/v1/chat/completions").content == b"".join(said(*PROSE))


def test_a_bug_in_reading_usage_does_not_break_an_unwatched_answer(
    served, rig, survives, monkeypatch
):
    stream = said(*PROSE, usage=(3, 4))
    model = rig.script(stream)
    break_at(monkeypatch, ChatDialect, "usage")
    got = web.post(
        served.url + "/v1/chat/completions",
        json={"model": model, **FIELDS},
        headers={"x-millgate-guard": "off"},
        timeout=MOST_S,
    )
    assert got.content == b"".join(stream)


def test_a_bug_is_logged_with_its_traceback(served, rig, survives, monkeypatch, caplog):
    model = rig.script(said(*PROSE))
    break_at(monkeypatch, StreamMachine, "feed")
    ask(served, model, "/v1/chat/completions")
    told = [record for record in caplog.records if "bug in the guard of a stream" in record.message]
    assert len(told) == 1
    assert told[0].exc_info
    assert json.dumps(served.calls[-1].report.passed_on) == '"RuntimeError: a bug in feed"'
