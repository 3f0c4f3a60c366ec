"""App: the proxy in the service, under the same keys, limits, log and metrics as every other route.

Streams take longer than other requests, so the service's deadline does not hold for them; the upstream's own limits do.
What the service refuses on these paths has the format of their APIs. Every call becomes a trace. Without any upstream
only the well-known paths are there, to say what is missing.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from millgate.calls.bugs import EXPECTED, LOGGER, describe, report
from millgate.errors import ConfigError, MillgateError
from millgate.guard.dialects import dialect_for, installed_dialects
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.error_codes import status_of
from millgate.keys import missing_scope
from millgate.service.conversation_state import open_folds
from millgate.service.edge.body import weigh
from millgate.service.edge.paths import is_proxied
from millgate.service.edge.problems import refusal
from millgate.service.observe.call_trace import call_trace
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import Caller, RequestState
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.proxy import Proxy
from millgate.service.state import ServiceState
from millgate.spending.prices import load_table
from millgate.types import Context, Trace

MOST_WAITING = 16 << 20  # bytes of requests that wait to be read for their traces
SHORT = 16 << 10  # bytes of a request that is read in less time than waking a thread takes
HEAVIEST = 5 << 20  # weight of a request that is read: more than a million tokens
METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
KNOWN = ("/v1/models", "/v1/embeddings")
ANY = "/{rest:path}"  # ProxiedRoutes has looked at the path already


def mount(app: Starlette, service: ServiceState) -> None:
    """Mount the proxy that the settings describe."""
    settings = service.gate.settings
    if any(cap.cost for cap in settings.fuse.caps.values()):
        load_table()  # not while the first call waits
    observer = CallObserver(service)
    proxy = Proxy(
        settings.proxy,
        settings.guard,
        circles=settings.circles,
        compaction=settings.compaction,
        fold=settings.fold,
        gate_for=service.gate_for,
        observer=observer,
        remembered=service.conversations,
        folds=open_folds(service.conversations),
        budget=service.budget,
        body_bytes=settings.service.body_bytes,
    )
    # Before FastAPI's routes, so that a model call is not matched against all of them.
    app.router.routes[:0] = routes(proxy, wrap=_require_read_scope)
    service.on_shutdown += [proxy.close, observer.close]


# Routes


class ProxiedRoutes(BaseRoute):
    """All paths that are not the gate's own, as one route: of many, each would be tried in turn."""

    def __init__(
        self,
        known: Mapping[str, Route],
        dialects: Mapping[type[Dialect], Route],
        rest: Route | None,
    ) -> None:
        self._known, self._dialects, self._rest = known, dialects, rest

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match for our own paths, whatever the method: an upstream must not see them.

        The scope gets the route, by which log and metrics name it.
        """
        path = scope.get("path", "")
        route = self._route(path) if is_proxied(path) else None
        if route is None:
            return Match.NONE, {}
        match, found = route.matches(scope)
        return match, {**found, "route": route}

    def _route(self, path: str) -> Route | None:
        if path in self._known:
            return self._known[path]
        return next((r for kind, r in self._dialects.items() if kind.serves(path)), self._rest)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that matches."""
        await scope["route"].handle(scope, receive, send)


def routes(
    proxy: Proxy, *, wrap: Callable[[ASGIApp], Any] = lambda app: app
) -> Sequence[BaseRoute]:
    """What to add to an application's routes; `wrap` goes around each."""

    def route(path: str, app: ASGIApp, *, fits: str = "") -> Route:
        made = Route(fits or path, app, methods=METHODS, include_in_schema=False)
        made.app = wrap(app)  # a route takes a function for one that makes responses
        made.path = path  # its name in log and metrics
        return made

    known: dict[str, Route] = {}
    dialects: dict[type[Dialect], Route] = {}
    for kind in installed_dialects():
        if not is_proxied(kind.path):
            raise ConfigError(
                f"{kind.__name__} has the path {kind.path}, which the proxy does not serve",
                hint="a dialect's path is below /v1/ or /v1beta/, and not one of the service's own",
            )
        if "{" in kind.path:  # a part of it changes, and `serves` knows which
            dialects[kind] = route(kind.path, proxy.app_for(kind), fits=ANY)
        else:
            known[kind.path] = route(kind.path, proxy.app_for(kind))
    if proxy.policy.upstreams:
        rest = route("/v1/{rest:path}", proxy.rest, fits=ANY)
        return [ProxiedRoutes(known, dialects, rest)]
    known |= {path: route(path, proxy.rest) for path in KNOWN}
    return [ProxiedRoutes(known, dialects, None)]


# Who is let in, and how a refusal looks


def error_response(error: MillgateError, scope: Scope, request_id: str) -> Response:
    """What the service refuses, in the format of the path's API."""
    refused = refusal(error, request_id)
    if not is_proxied(scope["path"]):
        return refused
    names = ("retry-after", "www-authenticate")
    headers = {name: refused.headers[name] for name in names if name in refused.headers}
    return JSONResponse(dialect_for(scope["path"]).error(error), status_of(error), headers)


def _require_read_scope(app: ASGIApp) -> Callable[[Scope, Receive, Send], object]:
    """The application for callers who may read, without the service's deadline."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope["millgate"]
        if state.caller is None or "read" not in state.caller.scopes:
            error = missing_scope("read", state.caller.scopes if state.caller else ())
            await error_response(error, scope, state.id)(scope, receive, send)
            return
        if state.deadline is not None:
            state.deadline.reschedule(None)
        await app(scope, receive, send)

    return serve


# What becomes of every call


class CallObserver:
    """Hands every call to the metrics, to the request's state (for log and spans), and to the store as a trace.

    A trace says what stood in the window. For a short conversation the thread that writes the trace reads that; for the
    others a thread of ours does, and no request waits for it. If too many are unread, the traces of further calls leave
    the window out, and so do those of huge requests.
    """

    def __init__(self, service: ServiceState) -> None:
        self._service = service
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="millgate-traces")
        self._waiting = 0  # bytes of their requests
        self._lock = Lock()

    def count_context(self, context: Context) -> None:
        """A context was built for a question."""
        self._service.metrics.count_context(context.trace, context.token_estimate)

    def observe(self, exchange: Exchange) -> None:
        """An exchange is over."""
        call, caller = exchange.call, exchange.caller
        if exchange.state is not None:
            exchange.state.call = call
        self._service.metrics.count_call(call)
        if not call.operation or not caller.tenant:
            return
        if self._waiting + len(call.sent) > MOST_WAITING or weigh(call.sent) > HEAVIEST:
            call.sent = b""
        make = partial(call_trace, call, tenant=caller.tenant, now=time.time())
        if len(call.sent) <= SHORT:
            self._save(caller, call, make)
        else:
            self._count_waiting(len(call.sent))
            self._reader.submit(self._read, caller, call, make)

    def _count_waiting(self, size: int) -> None:
        with self._lock:
            self._waiting += size

    def _read(self, caller: Caller, call: ModelCall, make: Callable[[], Trace]) -> None:
        try:
            trace = make()
            self._save(caller, call, lambda: trace)
        except EXPECTED as error:
            self._lose(call, error)
        except Exception as error:  # noqa: BLE001  a bug: no caller sees what this thread raises
            self._lose(call, error)
            report(error, "the trace of a model call")
        finally:
            self._count_waiting(-len(call.sent))

    def _save(self, caller: Caller, call: ModelCall, make: Callable[[], Trace]) -> None:
        """Queue the trace; `make` reads the whole conversation, so it runs later."""
        gate = self._service.gate_for(caller)
        if not gate.settings.trace.text:
            call.error_message = ""  # it may quote the request or the answer
        try:
            if gate.settings.trace.keep:
                gate.save_trace_later(call.id, make)
        except MillgateError as error:
            self._lose(call, error)

    def _lose(self, call: ModelCall, error: Exception) -> None:
        self._service.metrics.count_lost_trace()
        LOGGER.warning("the trace of the model call %s is lost: %s", call.id, describe(error))

    async def close(self) -> None:
        """Wait for the last traces."""
        await asyncio.to_thread(self._reader.shutdown)
