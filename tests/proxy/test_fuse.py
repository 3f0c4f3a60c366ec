"""The fuse in the proxy: counted by what the upstream told, warned, paused, resumed; in trace, metrics and why."""

import asyncio
import json
import threading
from types import SimpleNamespace

import httpx2
import pytest
from bench.fixtures.sessions import MadeCall, Turn, render
from click.testing import CliRunner
from tests.proxy import web
from tests.proxy.upstream import PROSE, RESET, answer, json_head, said, told
from tests.waiting import MOST_S, until

from millgate.cli import app
from millgate.gateway import Millgate
from millgate.guard.dialects import dialect_for
from millgate.service.app import create
from millgate.service.proxy.request import session_of
from millgate.service.proxy.steps import fuse
from millgate.settings import Settings
from millgate.types.policy import ProxyPolicy

ASK = [{"role": "user", "content": "When are refunds paid?"}]
CAP = 1_000
FUSE = {"caps": {"session": {"tokens": CAP}}}


@pytest.fixture
def gate(rig, tmp_path):
    policy = ProxyPolicy(upstreams={"main": rig.at()})
    settings = Settings(store=str(tmp_path / "kb"), proxy=policy, fuse=FUSE)
    with Millgate.open(settings=settings) as gate:
        yield gate


@pytest.fixture
def address(rig, gate):
    url, stop = rig.app(create(gate))
    yield url
    stop()


def post(address, model, session="s", path="/v1/chat/completions", **more):
    body = {"model": model, "messages": ASK, "stream": True, "max_tokens": 100, **more}
    headers = {"x-millgate-session": session} if session else {}
    return web.post(address + path, json=body, headers=headers, timeout=MOST_S)


def spent(gate, name="s"):
    return next(row.total_tokens for row, _ in gate.spending.list_spends() if row.name == name)


def trace_of(gate, reply):
    id = reply.headers["x-millgate-call"]
    until(lambda: next((one for one in gate.traces() if one.id == id), None))
    return gate.trace(id)


def test_a_session_is_counted_warned_paused_and_resumed(rig, gate, address, upstream):
    model = rig.script(said(*PROSE, usage=(380, 20)))
    replies = [post(address, model) for _ in range(4)]
    assert [reply.status_code for reply in replies] == [200, 200, 200, 402]
    assert "x-millgate-fuse" not in replies[0].headers
    assert "session s has spent 800 of 1,000 tokens; full in 1 call" in replies[2].headers["x-millgate-fuse"]  # fmt: skip
    error = replies[3].json()["error"]
    assert (error["type"], error["code"]) == ("insufficient_quota", "paused")
    assert "session s has spent 1,200 of 1,000 tokens and is paused" in error["message"]
    assert len(upstream.seen[model]) == 3
    assert post(address, model, session="other").status_code == 200
    web.post(f"{address}/v1/sessions/resume", json={"name": "s"})
    assert post(address, model).status_code == 200
    assert spent(gate) == 1_600


@pytest.mark.parametrize("stream", [True, False])
def test_anthropics_cached_input_counts(rig, gate, address, stream):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 40, "output_tokens": 5}  # fmt: skip
    whole = {"id": "m", "type": "message", "role": "assistant", "model": "up", "content": [{"type": "text", "text": "Well."}], "stop_reason": "end_turn", "usage": usage}  # fmt: skip
    events = told("Well.")
    events[0] = events[0].replace(
        b'{"input_tokens": 10, "output_tokens": 1}', json.dumps(usage).encode()
    )
    model = rig.script(events if stream else [json_head(), json.dumps(whole).encode()])
    assert post(address, model, path="/v1/messages", stream=stream).status_code == 200
    assert spent(gate) == 355


def test_an_answer_that_nobody_watched_is_booked_as_told_else_as_it_was_held(rig, gate, address):
    post(address, rig.script(answer("Well.", usage=(10, 5))), stream=False, n=2)
    assert spent(gate) == 15
    post(address, rig.script([json_head(), b'{"choices": []}']), stream=False, n=2)
    assert 200 < spent(gate) - 15 < 300  # two answers of at most 100 tokens each


def test_an_upstream_that_refuses_or_breaks_costs_nothing_or_what_it_said(rig, gate, address):
    model = rig.script([json_head(500), b"{}"])
    assert post(address, model).status_code == 500
    assert spent(gate) == 0
    with pytest.raises(httpx2.RemoteProtocolError):
        post(address, rig.script([*said(*PROSE)[:3], RESET]))
    assert 0 < spent(gate) < 200


PASSED_ON = {
    "/v1/embeddings": {"input": "word " * 100},
    "/v1/rerank": {"query": "refunds", "documents": ["word " * 100]},
    "/v1/responses/compact": {"input": "word " * 100},
    "/v1/messages/count_tokens": {"messages": ASK},
}


@pytest.mark.parametrize("path", PASSED_ON)
def test_a_paused_session_is_refused_by_the_other_apis_too(rig, gate, address, upstream, path):
    post(address, rig.script(said(*PROSE, usage=(CAP, 1))))
    model = rig.script([json_head(), b"{}"])
    reply = post(address, model, path=path, **PASSED_ON[path])
    assert reply.status_code == 402
    assert "is paused" in reply.text
    assert upstream.seen[model] == []
    assert post(address, model, path=path, session="other", **PASSED_ON[path]).status_code == 200


@pytest.mark.parametrize("coding", ["", "br"])
def test_a_body_that_cannot_be_read_is_counted_and_refused_at_a_cap(
    rig, gate, address, upstream, coding
):
    post(address, rig.script(said(*PROSE, usage=(CAP, 1))))
    answered = [json_head(), b'{"usage": {"prompt_tokens": 7, "completion_tokens": 1}}']
    model = rig.script(answered)
    upstream.script(
        "/v1/chat/completions", answered
    )  # what it takes for the model of a packed body
    content = b"packed" if coding else b'{"model": "%b", "messages": [NaN]}' % model.encode()
    headers = {"content-type": "application/json", "content-encoding": coding}
    for session, status in (("s", 402), ("other", 200)):
        asked = headers | {"x-millgate-session": session}
        reply = web.post(f"{address}/v1/chat/completions", content=content, headers=asked)
        assert reply.status_code == status, reply.text
    assert spent(gate, "other") == 8


def test_what_another_api_takes_is_booked_as_told_else_as_it_was_estimated(rig, gate, address):
    told_usage = b'{"data": [], "usage": {"prompt_tokens": 77, "total_tokens": 77}}'
    body = PASSED_ON["/v1/embeddings"]
    assert post(address, rig.script([json_head(), told_usage]), path="/v1/embeddings", **body).content == told_usage  # fmt: skip
    until(lambda: spent(gate) == 77)
    post(address, rig.script([json_head(), b'{"data": []}']), path="/v1/embeddings", **body)
    until(lambda: 77 + 100 <= spent(gate) <= 77 + 300)
    before = spent(gate)
    post(address, rig.script([json_head(500), b"{}"]), path="/v1/embeddings", **body)
    post(address, rig.script([json_head(), b'{"input_tokens": 9}']), path="/v1/messages/count_tokens")  # fmt: skip
    until(lambda: _calls(gate) == 4)
    assert spent(gate) == before


def _calls(gate, name="s"):
    return next(row.total_calls for row, _ in gate.spending.list_spends() if row.name == name)


@pytest.mark.parametrize("limit", [-1_000_000_000, 10**15, True, "many"])
def test_an_absurd_limit_of_tokens_locks_nobody_out(rig, tmp_path, limit):
    """What is held for a call under way keeps others from as many tokens."""
    policy = ProxyPolicy(upstreams={"main": rig.at()})
    settings = Settings(store=str(tmp_path / "kb"), proxy=policy, fuse={"caps": {"tenant": {"tokens": 3_000_000}}})  # fmt: skip
    with Millgate.open(settings=settings) as gate:
        url, stop = rig.app(create(gate))
        try:
            post(url, rig.script(said(*PROSE, usage=(10, 10))), max_tokens=limit)
            (row, _), *_ = gate.spending.list_spends("tenant")
            assert (row.held_tokens, row.tokens) == (0, 20)
            model = rig.script(said(*PROSE, usage=(10, 10)))
            assert post(url, model, n=10**9, max_tokens=10).status_code == 200
        finally:
            stop()


def test_the_forecast_is_in_trace_and_metrics_and_why_explains(rig, gate, address, tmp_path):
    model = rig.script(said(*PROSE, usage=(580, 20)))
    replies = [post(address, model) for _ in range(3)]
    facts = [step.facts for step in trace_of(gate, replies[0]).steps if step.stage == "fuse"]
    assert facts[0]["calls_left"] == 1
    assert facts[0]["used"] == 600
    metrics = web.get(f"{address}/metrics").text
    assert 'millgate_fuse_calls_total{scope="session",state="paused"}' in metrics
    refused = trace_of(gate, replies[2])
    shown = CliRunner().invoke(app, ["why", refused.id, "--store", str(tmp_path / "kb")])
    assert (
        "fuse       paused: session s has spent 1,200 of 1,000 tokens and is paused" in shown.stdout
    )
    assert "millgate sessions resume s" in shown.stdout


def test_a_circle_is_in_trace_and_metrics_and_why_explains(rig, gate, address, tmp_path):
    turn = Turn(calls=(MadeCall("read", {"path": "a"}, "no such file"),))
    messages = render([Turn(human="Read a."), *[turn] * 3], "chat")
    model = rig.script(said(*PROSE))
    trace = trace_of(gate, post(address, model, messages=messages))
    (step,) = [step for step in trace.steps if step.stage == "circles"]
    assert (step.facts["rung"], step.facts["period"], step.facts["copies"]) == ("note", 1, 3)
    assert 'millgate_circles_total{rung="note"} 1.0' in web.get(f"{address}/metrics").text
    shown = CliRunner().invoke(app, ["why", trace.id, "--store", str(tmp_path / "kb")])
    assert "a note was added to the last tool result: read was called 3 times" in shown.stdout
    assert "circles.rungs.note = 4" in shown.stdout
    told = CliRunner().invoke(app, ["why", trace.id, "--json", "--store", str(tmp_path / "kb")])
    assert json.loads(told.stdout)["interventions"][0]["facts"]["copies"] == 3


def test_a_store_that_fails_lets_the_call_through_and_says_so(rig, gate, address, monkeypatch):
    from millgate.errors import StoreError
    from millgate.stores.sqlite.store import SqliteStore

    def fail(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(SqliteStore, "amend_spends", fail)
    reply = post(address, rig.script(said(*PROSE)))
    assert reply.status_code == 200
    assert reply.headers["x-millgate-degraded"] == "fuse: the disk is full"


UUID = "57a121ec-f78c-48c3-a745-e3036a3ecc33"


@pytest.mark.parametrize(
    ("headers", "fields", "expected"),
    [
        ({"x-millgate-session": "mine", "session_id": "other"}, {}, "mine"),
        ({"X-Claude-Code-Session-Id": UUID}, {}, UUID),
        ({"session_id": UUID}, {"prompt_cache_key": "x"}, UUID),
        ({}, {"metadata": {"user_id": f"user_ab_account__session_{UUID}"}}, UUID),
        ({}, {"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": UUID})}}, UUID),
        ({}, {"prompt_cache_key": "conversation-1"}, "conversation-1"),
        ({}, {"conversation": {"id": "conv_1"}}, "conv_1"),
    ],
)
def test_a_session_is_known_by_what_clients_send(headers, fields, expected):
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert session_of(raw, fields, ASK) == expected


def test_without_a_name_a_session_is_known_by_how_it_begins():
    first = session_of([], {}, ASK)
    assert first.startswith("conversation-")
    assert session_of([], {}, [*ASK, {"role": "assistant", "content": "On Monday."}]) == first
    assert session_of([], {"system": "Be brief."}, ASK) != first
    assert session_of([], {}, [{"role": "user", "content": "Something else"}]) != first
    long = session_of([(b"session_id", b"x" * 5_000)], {}, ASK)
    assert long.startswith("conversation-")
    assert session_of([], {"metadata": {"user_id": "[1"}, "conversation": 3}, ASK) == first


def test_instructions_that_tell_the_time_begin_no_new_session():
    assert session_of([], {"system": "It is 14:31."}, ASK) == session_of([], {"system": "It is 9:05."}, ASK)  # fmt: skip
    told = [[{"role": "system", "content": f"It is {time}."}, *ASK] for time in ("14:31", "9:05")]
    assert session_of([], {}, told[0]) == session_of([], {}, told[1])
    asked = [[{"role": "user", "content": f"Mend bug {number}."}] for number in (1, 2)]
    assert session_of([], {}, asked[0]) != session_of([], {}, asked[1])


def test_a_session_that_begins_with_a_long_text_is_known_by_both_its_ends():
    def begin(text: str) -> str:
        return session_of([], {}, [{"role": "user", "content": text}])

    book = "word " * 50_000
    assert begin(book + "Who wrote it?") == begin(book + "Who wrote it?")
    assert begin(book + "Who wrote it?") != begin(book + "Who read it??")
    assert begin("A" + book) != begin("B" + book)
    assert begin(book) != begin(book + "word ")


async def test_a_client_that_leaves_while_its_hold_is_made_leaves_none_behind(tmp_path):
    settings = Settings(store=str(tmp_path / "kb"), fuse=FUSE)
    with Millgate.open(settings=settings) as gate:
        began, go = threading.Event(), threading.Event()
        spending = gate.spending
        hold = spending.hold

        class Slow(type(spending)):
            async def ahold(self, *args):
                return await asyncio.to_thread(self._wait_and_hold, *args)

            def _wait_and_hold(self, *args):
                began.set()
                go.wait(MOST_S)
                return hold(*args)

        slow = Slow(gate.store, gate.tenant, gate.settings.fuse)
        exchange = SimpleNamespace(
            gate=SimpleNamespace(spending=slow),
            call=SimpleNamespace(
                session="s", model="m", server="", prompt_tokens=10, cap_statuses=()
            ),
            request=SimpleNamespace(model="m", fields={"max_tokens": 100}, body=b""),
            caller=SimpleNamespace(key="k"),
            dialect=dialect_for("/v1/chat/completions"),
            reply_headers={},
        )
        holding = asyncio.ensure_future(fuse(exchange))
        await asyncio.to_thread(began.wait, 20)
        holding.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await holding
        [(row, _)] = gate.spending.list_spends()
        assert (row.held_tokens, row.total_tokens) == (0, 0)
