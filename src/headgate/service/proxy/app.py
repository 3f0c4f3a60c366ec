"""App: the proxy in the service, under the same keys, limits, log and metrics as every other route.

Streams take longer than other requests, so the service's deadline does not hold for them; the upstream's own limits do.
What the service refuses on these paths has the shape of their APIs. Every call becomes a trace.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock

from fastapi import FastAPI
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.bugs import EXPECTED, LOGGER, describe, report
from headgate.errors import HeadgateError
from headgate.guard.dialects import dialect_for
from headgate.guard.dialects.error_codes import status_of
from headgate.guard.fuse import Spending
from headgate.protocols import SharedState
from headgate.service.auth import missing_scope
from headgate.service.body import weigh
from headgate.service.paths import is_proxied
from headgate.service.problems import refusal
from headgate.service.proxy.call_trace import call_trace
from headgate.service.proxy.fuse import Fuse
from headgate.service.proxy.model_call import ModelCall
from headgate.service.proxy.proxy import Proxy
from headgate.service.proxy.remembered import Remembered
from headgate.service.proxy.routes import routes
from headgate.service.request_state import Caller, RequestState
from headgate.service.state import ServiceState
from headgate.stores.open import folder_of
from headgate.types import Context, Request, Trace

MOST_WAITING = 16 << 20  # bytes of requests that wait to be read for their traces
NOBODY = Caller("", frozenset())
SHORT = 16 << 10  # bytes of one that is read in less time than waking a thread takes
HEAVIEST = 5 << 20  # weight of one that is read: more than a million tokens


def mount(app: FastAPI, service: ServiceState) -> None:
    """Mount the proxy that the settings describe."""
    settings = service.gate.settings
    observer = _Observer(service)

    async def gate(request: Request) -> Context:
        gate = service.gate_for(Caller(request.tenant, frozenset()))
        context = await gate.acontext_for(request)
        service.metrics.count_context(context.trace, context.token_estimate)
        return context

    def spending(scope: Scope) -> Spending:
        return service.gate_for(_caller(scope)).spending

    proxy = Proxy(
        settings.proxy,
        settings.guard,
        gate=gate,
        tenant=_tenant,
        may_use=_may_use,
        observe=observer.observe,
        remembered=_open_remembered(service),
        circles=settings.circles,
        fuse=Fuse(settings.fuse, spending, _key),
        key=_key,
        budget=service.budget,
    )
    app.router.routes[:0] = routes(proxy, wrap=_admit)  # first: they are in a hurry
    service.on_shutdown += [proxy.close, observer.close]


def _open_remembered(service: ServiceState) -> Remembered:
    """Where injected blocks are kept: in the store where gateways share it, else in a file beside it."""
    gate = service.gate
    if isinstance(gate.store, SharedState):
        return Remembered(shared=gate.store, tenant=gate.tenant)
    folder = folder_of(gate.settings.store)
    return Remembered(folder / "proxy.db" if folder else None)


class _Observer:
    """Hands every call to the metrics, to the request's state (for log and spans), and to the store as a trace.

    A trace says what stood in the window. Whoever writes it reads a short conversation for that; another thread reads
    the others, and nobody waits for it. Where too many are unread, the traces of further calls leave it out; so do
    those of huge requests.
    """

    def __init__(self, service: ServiceState) -> None:
        self._service = service
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="headgate-traces")
        self._waiting = 0  # bytes of their requests
        self._lock = Lock()

    def observe(self, scope: Scope, call: ModelCall) -> None:
        """A call is over."""
        state = _state(scope)
        state.call = call
        self._service.metrics.count_call(call)
        if not call.operation or not state.caller:
            return
        if self._waiting + len(call.sent) > MOST_WAITING or weigh(call.sent) > HEAVIEST:
            call.sent = b""
        make = partial(call_trace, call, tenant=state.caller.tenant, now=time.time())
        if len(call.sent) <= SHORT:
            self._save(state.caller, call, make)
        else:
            self._count_waiting(len(call.sent))
            self._reader.submit(self._read, state.caller, call, make)

    def _count_waiting(self, size: int) -> None:
        with self._lock:
            self._waiting += size

    def _read(self, caller: Caller, call: ModelCall, make: Callable[[], Trace]) -> None:
        try:
            trace = make()
            self._save(caller, call, lambda: trace)
        except EXPECTED as error:
            self._lose(call, error)
        except Exception as error:  # noqa: BLE001  a bug: nobody else looks at what this thread raises
            self._lose(call, error)
            report(error, "the trace of a model call")
        finally:
            self._count_waiting(-len(call.sent))

    def _save(self, caller: Caller, call: ModelCall, make: Callable[[], Trace]) -> None:
        """Queue the trace; `make` reads the whole conversation, so it runs later."""
        gate = self._service.gate_for(caller)
        try:
            if gate.settings.trace.keep:
                gate.save_trace_later(call.id, make)
        except HeadgateError as error:
            self._lose(call, error)

    def _lose(self, call: ModelCall, error: Exception) -> None:
        self._service.metrics.count_lost_trace()
        LOGGER.warning("the trace of the model call %s is lost: %s", call.id, describe(error))

    async def close(self) -> None:
        """Wait for the last traces."""
        await asyncio.to_thread(self._reader.shutdown)


def error_response(error: HeadgateError, scope: Scope, request_id: str) -> Response:
    """What the service refuses, in the shape that the path's API has."""
    refused = refusal(error, request_id)
    if not is_proxied(scope["path"]):
        return refused
    names = ("retry-after", "www-authenticate")
    headers = {name: refused.headers[name] for name in names if name in refused.headers}
    return JSONResponse(dialect_for(scope["path"]).error(error), status_of(error), headers)


def _admit(app: ASGIApp) -> Callable[[Scope, Receive, Send], object]:
    """The application for callers who may read, without the service's deadline."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        state = _state(scope)
        if state.caller is None or "read" not in state.caller.scopes:
            await error_response(missing_scope("read"), scope, state.id)(scope, receive, send)
            return
        if state.deadline is not None:
            state.deadline.reschedule(None)
        await app(scope, receive, send)

    return serve


def _state(scope: Scope) -> RequestState:
    state: RequestState = scope["headgate"]
    return state


def _caller(scope: Scope) -> Caller:
    return _state(scope).caller or NOBODY


def _tenant(scope: Scope) -> str:
    return _caller(scope).tenant


def _may_use(scope: Scope, upstream: str) -> bool:
    return _caller(scope).may_use(upstream)


def _key(scope: Scope) -> str:
    return _caller(scope).key
