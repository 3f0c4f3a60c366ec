"""The proxy's place in the service: whose calls are traced, how many windows wait for that, and who is let in."""

import asyncio
from threading import Event

import pytest
from tests.waiting import MOST_S

from millgate.calls.bugs import set_strict
from millgate.errors import AccessError, BusyError, InputError, StoreError
from millgate.guard.dialects.chat import ChatDialect
from millgate.service.observe.metrics import Metrics
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import Caller, RequestState
from millgate.service.proxy import app as proxy_app
from millgate.service.proxy.app import CallObserver, error_response
from millgate.service.proxy.exchange import Exchange
from millgate.types.notes import Stage

CALLER = Caller("acme", frozenset({"read", "proxy:main"}), "k1")


class Gate:
    """Takes traces, or fails."""

    def __init__(self, keep=1, error=None, text=True):
        self.settings = self.trace = self
        self.text = text
        self.keep, self.error, self.saved = keep, error, []
        self.ready = Event()
        self.ready.set()

    def save_trace_later(self, id, make):
        self.ready.wait(MOST_S)
        if self.error:
            raise self.error
        self.saved.append(make())


class Service:
    def __init__(self, gate):
        self.gate, self.metrics = gate, Metrics()

    def gate_for(self, caller):
        return self.gate


def exchange_of(call, caller=CALLER):
    state = RequestState("r", "POST", caller=caller)
    scope = {"method": "POST", "path": "/v1/chat/completions", "headers": [], "millgate": state}
    return Exchange.begin(scope, None, ChatDialect(), call)


def call_of(size=0):
    sent = b'{"messages": [{"role": "user", "content": "Hi"}]}'.ljust(size) if size else b""
    assert len(sent) == size
    return ModelCall("/v1/chat/completions", "chat", sent=sent)


@pytest.mark.parametrize(("keep", "caller", "operation", "saved"), [(1, CALLER, "chat", 1), (0, CALLER, "chat", 0), (1, None, "chat", 0), (1, CALLER, "", 0)])  # fmt: skip
async def test_a_model_call_of_a_caller_is_a_trace_if_traces_are_kept(keep, caller, operation, saved):  # fmt: skip
    gate = Gate(keep)
    observer = CallObserver(Service(gate))
    call = ModelCall("/v1/chat/completions", operation)
    exchange = exchange_of(call, caller)
    observer.observe(exchange)
    await observer.close()
    assert len(gate.saved) == saved
    assert exchange.state.call is call


@pytest.mark.parametrize("text", [True, False])
async def test_what_went_wrong_is_kept_in_words_only_if_texts_are(text):
    gate = Gate(text=text)
    observer = CallObserver(Service(gate))
    call = call_of()
    call.note_error(InputError("there is no upstream 'foo'"))
    observer.observe(exchange_of(call))
    await observer.close()
    said = "InputError: there is no upstream 'foo'" if text else "InputError"
    assert gate.saved[0].steps[0].degraded == said


async def test_windows_wait_for_their_trace_up_to_a_bound_and_further_calls_leave_theirs_out(monkeypatch):  # fmt: skip
    monkeypatch.setattr(proxy_app, "MOST_WAITING", 120)
    monkeypatch.setattr(proxy_app, "SHORT", -1)
    gate = Gate()
    gate.ready.clear()
    observer = CallObserver(Service(gate))
    for size in (70, 50, 50):
        observer.observe(exchange_of(call_of(size)))
    assert observer._waiting == 120
    gate.ready.set()
    await asyncio.wrap_future(observer._reader.submit(int))  # behind those before it
    kinds = [Stage.WINDOW in {step.stage for step in trace.steps} for trace in gate.saved]
    assert sorted(kinds) == [False, True, True]
    observer.observe(exchange_of(call_of(120)))
    await observer.close()
    assert len(gate.saved) == 4
    assert observer._waiting == 0, "what was read no longer waits"


@pytest.mark.parametrize(("size", "threads"), [(50, 0), (proxy_app.SHORT + 1, 1)])
async def test_a_short_conversation_is_read_by_whoever_writes_its_trace(size, threads):
    gate, made = Gate(), []
    gate.save_trace_later = lambda _, make: made.append(make)
    observer = CallObserver(Service(gate))
    observer.observe(exchange_of(call_of(size)))
    assert len(observer._reader._threads) == threads
    await observer.close()
    assert Stage.WINDOW in {step.stage for step in made[0]().steps}


async def test_a_trace_that_cannot_be_stored_is_counted_and_logged(caplog):
    service = Service(Gate(error=StoreError("gone")))
    observer = CallObserver(service)
    call = call_of()
    observer.observe(exchange_of(call))
    await observer.close()
    assert "millgate_traces_lost_total 1.0" in service.metrics.text().splitlines()
    assert f"the trace of the model call {call.id} is lost: gone" in caplog.text


@pytest.mark.parametrize("sent", [b"[" * 20_000, b'["no object"]'.ljust(20_000)])
async def test_a_conversation_that_cannot_be_read_for_its_trace_is_counted_and_logged(caplog, sent):  # fmt: skip
    service = Service(Gate())
    observer = CallObserver(service)
    call = ModelCall("/v1/chat/completions", "chat", sent=sent)
    before = set_strict(False)
    try:
        observer.observe(exchange_of(call))
        await observer.close()
    finally:
        set_strict(before)
    assert "millgate_traces_lost_total 1.0" in service.metrics.text().splitlines()
    assert f"the trace of the model call {call.id} is lost" in caplog.text
    assert observer._waiting == 0


def test_who_calls_is_read_from_the_request():
    caller = exchange_of(call_of()).caller
    assert (caller.tenant, caller.key) == ("acme", "k1")
    assert caller.may_use("main")
    assert not caller.may_use("other")
    nobody = exchange_of(call_of(), None).caller
    assert (nobody.tenant, nobody.key) == ("", "")
    assert not nobody.may_use("main")


@pytest.mark.parametrize(("error", "header"), [(BusyError("busy", retry_after=3), "retry-after"), (AccessError("no"), "www-authenticate")])  # fmt: skip
def test_a_refusal_has_the_shape_of_the_paths_api_and_its_headers(error, header):
    proxied = error_response(error, {"path": "/v1/messages"}, "r")
    assert header in proxied.headers
    assert b'"type":"error"' in proxied.body
    own = error_response(error, {"path": "/v1/context"}, "r")
    assert own.media_type == "application/problem+json"


@pytest.mark.parametrize(("heaviest", "told"), [(50, True), (49, False)])
async def test_a_huge_request_is_not_read_for_its_trace(monkeypatch, heaviest, told):
    monkeypatch.setattr(proxy_app, "HEAVIEST", heaviest)
    gate = Gate()
    observer = CallObserver(Service(gate))
    observer.observe(exchange_of(call_of(50)))
    await observer.close()
    assert (Stage.WINDOW in {step.stage for step in gate.saved[0].steps}) is told
