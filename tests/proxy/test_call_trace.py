"""The trace of a call: sizes of its window, and of an answer that was cut its text, kept only where texts are."""

import asyncio

import orjson
import pytest
from bench.fixtures.sessions import MadeCall, Turn, render
from tests.waiting import MOST_S

from millgate.circles.finder import Circle
from millgate.circles.steps import CircleSteps, Mark
from millgate.cli.why import describe_row
from millgate.errors import InputError, LoopError, UpstreamError, UpstreamTimeout
from millgate.explain.as_data import redact_trace, trace_data
from millgate.explain.describe import describe
from millgate.guard.dialects.chat import ChatDialect
from millgate.guard.report import Cut, GuardReport, State
from millgate.service.dashboard.page import describe_outcome
from millgate.service.observe.call_trace import GAP, MOST_MESSAGES, PIECE_CHARS, call_trace
from millgate.service.observe.model_call import ModelCall
from millgate.service.proxy.http_client import NotReached
from millgate.service.proxy.proxy import Proxy
from millgate.spending.limits import CapStatus
from millgate.stores.stored_trace import pack_trace, read_trace, trim
from millgate.text.fence import fence
from millgate.types import TraceSummary
from millgate.types.notes import Stage
from millgate.types.policy import ProxyPolicy, UpstreamPolicy

SECRET = "sk-" + "a1B2" * 12


def traced(**more):
    return call_trace(ModelCall("/v1/chat/completions", "chat", **more), tenant="t", now=1.0)


def window_of(trace):
    (step,) = [step for step in trace.steps if step.stage is Stage.WINDOW]
    return step.facts


def test_the_window_is_kept_by_what_fills_it():
    read = MadeCall("read", {"path": "a.py"}, "one line of code and another one " * 20)
    edit = MadeCall("edit", {"path": "a.py"}, "done")
    block = fence("[1] Refunds are paid within 14 days.", b"secret")
    turns = [Turn(human=f"{block}\nPlease fix it."), Turn(calls=(read,)), Turn(calls=(read,)), Turn(calls=(edit,))]  # fmt: skip
    messages = [{"role": "system", "content": "You are careful."}, *render(turns, "chat")]
    facts = window_of(
        traced(sent=orjson.dumps({"messages": messages, "tools": [{"name": "read"}]}), length=9000)
    )
    kinds = ("system", "human", "call", "result", "tools")
    assert facts["tokens"] == sum(facts[kind] for kind in kinds)
    assert 0 < facts["injected"] < facts["human"]
    assert facts["repeated"] > facts["result read"] / 3
    assert facts["stale"] == facts["result read"]
    assert facts["length"] == 9000
    assert "line of code" not in str(traced(sent=orjson.dumps({"messages": messages})).steps)


def cut_call():
    report = GuardReport(cuts=[Cut("reasoning", 1, 1, 1, "r", "u", 1, at=3), Cut("content", 30, 10, 5, "r", "u", 20, at=10, text="again again")])  # fmt: skip
    return {"report": report, "answer": f"0123456789{SECRET}"}


def test_a_cut_answer_is_kept_in_pieces_around_its_cuts():
    model, _, cut = traced(**cut_call()).steps
    assert model.text == f"0123456789{GAP}{SECRET}"
    assert cut.text == "again again"
    long = cut_call() | {"answer": "x" * 10 + GAP + "y" * 3 * PIECE_CHARS}
    first, rest = traced(**long).steps[0].text.split(GAP)
    assert (len(first), len(rest)) == (10, PIECE_CHARS)


def test_without_texts_nothing_of_the_answer_is_kept_and_secrets_never():
    trace = traced(**cut_call())
    assert [step.text for step in trim(trace, text=False).steps] == ["", "", ""]
    redacted = redact_trace(trace)
    assert SECRET not in redacted.steps[0].text
    assert redacted.steps[0].text.startswith(f"0123456789{GAP}")


def test_a_summary_tells_a_call_by_its_outcome():
    assert TraceSummary.of(traced()).outcome == "off"
    assert TraceSummary.of(traced(**cut_call())).outcome == "recovered"


def test_a_call_has_no_plan_in_what_is_kept_and_shown():
    call = traced(model="m", upstream="main")
    shown = trace_data(read_trace(pack_trace(trim(call), held=lambda _, ids: [])).trace)
    assert shown["plan"] is None
    assert (shown["strategy"], shown["tier"], shown["skip"], shown["budget"]) == ("", "", False, 0)
    assert call.notes_on("c1")[0].reason.endswith("a model call looks nothing up")


def test_a_failed_call_keeps_what_its_client_was_told_without_secrets():
    call = ModelCall("/v1/chat/completions")
    call.note_error(InputError(f"there is no upstream 'sk-ant-{'x' * 30}'", hint="upstreams: main"))
    trace = call_trace(call, tenant="t", now=0.0)
    assert trace.steps[0].degraded.startswith("InputError: there is no upstream '[redacted ")
    assert trace.steps[0].degraded.endswith("(upstreams: main)")


def test_the_kind_of_a_loop_is_enough():
    call = ModelCall("/v1/chat/completions")
    call.note_error(LoopError("the model kept looping"))
    assert call.problem == "LoopError"


def test_the_step_of_a_call_has_the_numbers_of_its_report_and_leaves_out_blanks():
    bare = traced(status=502).steps[0].facts
    assert not bare.keys() & {"rollbacks", "wasted_tokens", "first_byte_s", "model"}
    report = GuardReport(rollbacks=2, wasted_tokens=5)
    full = traced(report=report, first_byte_s=0.12345, model="m").steps[0].facts
    assert (full["rollbacks"], full["wasted_tokens"], full["first_byte_s"]) == (2, 5, 0.1235)  # fmt: skip
    assert full["model"] == "m"


def test_the_outcome_says_whether_there_was_an_answer_and_the_guard_what_it_made_of_it():
    refused = TraceSummary.of(traced(status=429))
    assert (refused.outcome, refused.status) == ("unanswered", 429)
    circle = Circle(1, 8, (), 1, 15)
    ended = traced(status=200, circles=CircleSteps((), circle)).steps[0].facts
    assert (ended["outcome"], ended["guard"]) == ("ended", "off")
    assert TraceSummary.of(traced(status=200, report=GuardReport(state=State.DONE))).outcome == "clean"  # fmt: skip


def test_a_turn_that_ended_before_is_told_again_in_each_later_call():
    circle = Circle(1, 10, (), 1, 19)
    (told,) = describe(traced(circles=CircleSteps((), circle))).done
    assert told.what.startswith("the turn was ended without asking the model: ")
    assert told.change.endswith("circles.rungs.end = 11 (there were 10 copies)")
    now = CircleSteps((Mark(19, "end", circle),), circle)
    assert len(describe(traced(circles=now)).done) == 1


def test_a_long_piece_before_a_cut_keeps_its_end():
    cut = Cut("content", 0, 0, 1, "r", "u", 1, at=PIECE_CHARS + 10)
    answer = "a" * 10 + "b" * PIECE_CHARS + "c" * 5
    first, rest = traced(report=GuardReport(cuts=[cut]), answer=answer).steps[0].text.split(GAP)
    assert (first, rest) == ("b" * PIECE_CHARS, "c" * 5)
    second = Cut("content", 0, 0, 1, "r", "u", 1, at=12)
    pieces = traced(report=GuardReport(cuts=[Cut("content", 0, 0, 1, "r", "u", 1, at=10), second]), answer="0123456789abcd").steps[0].text  # fmt: skip
    assert pieces.split(GAP) == ["0123456789", "ab", "cd"]


def test_the_step_of_a_cap_says_how_many_calls_are_left_if_that_is_known():
    known = CapStatus("session", "s", "open", 25, 100, "tokens", calls_left=0)
    unknown = CapStatus("tenant", "t", "open", 25, 100, "tokens")
    steps = [s for s in traced(cap_statuses=(known, unknown)).steps if s.stage is Stage.FUSE]
    assert [step.facts.get("calls_left") for step in steps] == [0, None]


def test_the_window_of_a_conversation_of_very_many_messages_is_left_out():
    for path, field, count, steps in (("chat/completions", "messages", MOST_MESSAGES, 2), ("chat/completions", "messages", MOST_MESSAGES + 1, 1), ("responses", "input", MOST_MESSAGES + 1, 1)):  # fmt: skip
        sent = orjson.dumps({field: [{"role": "user", "content": "x"}] * count})
        made = call_trace(ModelCall(f"/v1/{path}", "chat", sent=sent), tenant="t", now=1.0)
        assert len(made.steps) == steps


def test_a_repetition_that_was_let_pass_is_noted():
    report = GuardReport(warnings=[f"{n}.0 copies, let pass: in a tool call" for n in range(20)])
    step = traced(report=report).steps[0]
    assert step.stage is Stage.MODEL
    assert step.facts["repetition"].startswith("0.0 copies, let pass: in a tool call; 1.0 copies")
    assert step.facts["repetition"].count("copies") == 5
    assert "repetition" not in traced(report=GuardReport()).steps[0].facts


@pytest.mark.parametrize(
    ("state", "error", "status", "outcome"),
    [
        (State.FAILED, "LoopError", 200, "failed"),
        (State.FAILED, "PartialCallError", 200, "failed"),
        (State.FAILED, "upstream_ended_early", 200, "broken"),
        (State.FAILED, "UpstreamReset", 200, "broken"),
        (State.CLOSED, "", 200, "abandoned"),
        (None, "", 499, "abandoned"),
        (None, "UpstreamError", 502, "unanswered"),
    ],
)
def test_an_answer_that_broke_off_or_was_given_up_is_told_from_one_that_kept_looping(
    state, error, status, outcome
):
    report = None if state is None else GuardReport(state=state)
    call = ModelCall("/v1/chat/completions", report=report, error=error, status=status)
    assert call.outcome == outcome


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UpstreamError("refused"), 0),
        (NotReached("no connection"), 0),
        (UpstreamTimeout("late"), 504),
    ],
)
def test_a_service_that_was_not_reached_is_told_from_one_that_answered_with_an_error(error, told):
    call = ModelCall("/v1/messages", "chat", upstream="main", status=error.status)
    call.note_error(error)
    trace = call_trace(call, tenant="t", now=0.0)
    summary = TraceSummary.of(trace)
    assert (summary.outcome, summary.status) == ("unanswered", told)
    said = "no answer: 504" if told else "no answer: not reached"
    assert describe_outcome(summary.outcome, summary.degraded, summary.status) == said
    assert f"({told or 'not reached'} ×1)" in describe_row([summary])
    (ending,) = describe(trace).done
    assert ending.what.startswith(
        "there was no answer" if told else "the service was not reached: "
    )


async def test_a_client_that_leaves_before_its_answer_began_is_told_so():
    """The upstream has the request and never answers."""
    asked, calls = asyncio.Event(), []

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        writer.close()

    class Observer:
        def observe(self, exchange):
            calls.append(exchange.call)

    body = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
    messages = [{"type": "http.request", "body": body}]

    async def receive():
        if messages:
            return messages.pop()
        await asked.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        raise AssertionError(f"nobody is there for {message}")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstreams = {"main": UpstreamPolicy(url=f"http://127.0.0.1:{port}/v1")}
    proxy = Proxy(ProxyPolicy(upstreams=upstreams), observer=Observer())
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    async with server, asyncio.timeout(MOST_S):
        await proxy.app_for(ChatDialect)(scope, receive, send)
        await proxy.close()
    assert [(call.status, call.outcome) for call in calls] == [(499, "abandoned")]
