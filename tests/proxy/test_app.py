"""The proxy's place in the service: whose calls are traced, how many windows wait for that, and who is let in."""

import pytest

from millgate.errors import AccessError, BusyError, InputError, StoreError
from millgate.guard.dialects.chat import ChatDialect
from millgate.service.observe.metrics import Metrics
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import Caller, RequestState
from millgate.service.proxy import app as proxy_app
from millgate.service.proxy.app import CallObserver, error_response
from millgate.service.proxy.exchange import Exchange, ProxyState
from millgate.types.notes import Stage
from millgate.types.policy import ProxyPolicy

CALLER = Caller("acme", frozenset({"read", "proxy:main"}), "k1")


class Gate:
    """Takes traces, or fails."""

    def __init__(self, keep=1, error=None, text=True):
        self.settings = self.trace = self
        self.text = text
        self.keep, self.error, self.waiting = keep, error, []

    def save_trace_later(self, id, make):
        if self.error:
            raise self.error
        self.waiting.append(make)

    @property
    def saved(self):
        return [make() for make in self.waiting]


class Service:
    def __init__(self, gate):
        self.gate, self.metrics = gate, Metrics()

    def gate_for(self, caller):
        return self.gate


def exchange_of(call, caller=CALLER):
    state = RequestState("r", "POST", caller=caller)
    scope = {"method": "POST", "path": "/v1/chat/completions", "headers": [], "millgate": state}
    return Exchange.begin(scope, None, ChatDialect(), call, ProxyState(ProxyPolicy()))


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
    assert len(gate.saved) == saved
    assert exchange.state.call is call


@pytest.mark.parametrize("text", [True, False])
async def test_what_went_wrong_is_kept_in_words_only_if_texts_are(text):
    gate = Gate(text=text)
    observer = CallObserver(Service(gate))
    call = call_of()
    call.note_error(InputError("there is no upstream 'foo'"))
    observer.observe(exchange_of(call))
    said = "InputError: there is no upstream 'foo'" if text else "InputError"
    assert gate.saved[0].steps[0].degraded == said


async def test_windows_wait_for_their_trace_up_to_a_bound_and_further_calls_leave_theirs_out(monkeypatch):  # fmt: skip
    monkeypatch.setattr(proxy_app, "MOST_WAITING", 120)
    gate = Gate()
    observer = CallObserver(Service(gate))
    for size in (70, 50, 50):
        observer.observe(exchange_of(call_of(size)))
    kinds = [Stage.WINDOW in {step.stage for step in trace.steps} for trace in gate.saved]
    assert kinds == [True, True, False]
    observer.observe(exchange_of(call_of(120)))
    assert Stage.WINDOW in {step.stage for step in gate.saved[-1].steps}, (
        "what was read no longer waits"
    )


async def test_a_trace_that_cannot_be_stored_is_counted_and_logged(caplog):
    service = Service(Gate(error=StoreError("gone")))
    observer = CallObserver(service)
    call = call_of()
    observer.observe(exchange_of(call))
    assert "millgate_traces_lost_total 1.0" in service.metrics.text().splitlines()
    assert f"the trace of the model call {call.id} is lost: gone" in caplog.text


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
    assert (Stage.WINDOW in {step.stage for step in gate.saved[0].steps}) is told
