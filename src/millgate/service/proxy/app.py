"""App: the proxy in the service, under the same keys, limits, log and metrics as every other route.

Streams take longer than other requests, so the service's deadline does not hold for them; the upstream's own limits do.
What the service refuses on these paths has the format of their APIs. Every call becomes a trace. Without any upstream
only the well-known paths are there, to say what is missing.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from millgate.calls.bugs import LOGGER, describe
from millgate.errors import ConfigError, MillgateError
from millgate.guard.dialects import dialect_for, installed_dialects
from millgate.guard.error_codes import status_of
from millgate.keys import missing_scope
from millgate.service.conversation_state import open_folds
from millgate.service.edge.body import weigh
from millgate.service.edge.paths import is_proxied
from millgate.service.edge.problems import refusal
from millgate.service.observe.call_trace import call_trace
from millgate.service.observe.request_state import RequestState
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.proxy import Proxy
from millgate.service.state import ServiceState
from millgate.spending.prices import load_table
from millgate.types import Context, Trace

MOST_WAITING = 16 << 20  # bytes of requests that wait to be read for their traces
HEAVIEST = 5 << 20  # weight of a request that is read: more than a million tokens
KNOWN = ("/v1/models", "/v1/embeddings")


def mount(app: Starlette, service: ServiceState) -> None:
    """Mount the proxy that the settings describe."""
    settings = service.gate.settings
    if any(cap.cost for cap in settings.fuse.caps.values()):
        load_table()  # not while the first call waits
    proxy = Proxy(
        settings.proxy,
        settings.guard,
        circles=settings.circles,
        compaction=settings.compaction,
        fold=settings.fold,
        gate_for=service.gate_for,
        observer=CallObserver(service),
        remembered=service.conversations,
        folds=open_folds(service.conversations),
        budget=service.budget,
        body_bytes=settings.service.body_bytes,
    )
    # Before FastAPI's routes, so that a model call is not matched against all of them.
    app.router.routes[:0] = routes(proxy, wrap=_require_read_scope)
    service.on_shutdown.append(proxy.close)


# Routes


class ProxiedRoute(BaseRoute):
    """All paths of one API, or all that are left over. `path` is its name in log and metrics."""

    def __init__(self, path: str, app: ASGIApp, serves: Callable[[str], bool]) -> None:
        self.path, self._app, self._serves = path, app, serves

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match for our own paths, whatever the method: an upstream must not see them."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not is_proxied(path) or not self._serves(path):
            return Match.NONE, {}
        return Match.FULL, {"route": self}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that matches."""
        await self._app(scope, receive, send)


def routes(proxy: Proxy, *, wrap: Callable[[ASGIApp], Any] = lambda app: app) -> list[BaseRoute]:
    """What to add to an application's routes; `wrap` goes around each."""
    made: list[BaseRoute] = []
    for kind in installed_dialects():
        if not is_proxied(kind.path):
            raise ConfigError(
                f"{kind.__name__} has the path {kind.path}, which the proxy does not serve",
                hint="a dialect's path is below /v1/ or /v1beta/, and not one of the service's own",
            )
        made.append(ProxiedRoute(kind.path, wrap(proxy.app_for(kind)), kind.serves))
    rest = wrap(proxy.rest)
    if proxy.policy.upstreams:
        return [*made, ProxiedRoute("/v1/{rest:path}", rest, lambda _: True)]
    return [*made, *(ProxiedRoute(path, rest, path.__eq__) for path in KNOWN)]


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

    A trace says what stood in the window. The thread that writes the trace reads that, and no request waits for it. If
    too many bytes are unread, the traces of further calls leave the window out, and so do those of huge requests.
    """

    def __init__(self, service: ServiceState) -> None:
        self._service = service
        self._unread: dict[str, int] = {}  # bytes of the requests that wait, by the id of the call

    def count_context(self, context: Context) -> None:
        """A context was built for a question."""
        self._service.metrics.count_context(context.trace, context.token_estimate)

    def observe(self, exchange: Exchange) -> None:
        """An exchange is over."""
        call, tenant, metrics = exchange.call, exchange.caller.tenant, self._service.metrics
        if exchange.state is not None:
            exchange.state.call = call
        metrics.count_call(call)
        if not call.operation or not tenant:
            return
        gate = self._service.gate_for(exchange.caller)
        if not gate.settings.trace.text:
            call.error_message = ""  # it may quote the request or the answer
        if not gate.settings.trace.keep:
            return
        waiting = sum(tuple(self._unread.values())) + len(call.sent)
        if waiting > MOST_WAITING or weigh(call.sent) > HEAVIEST:
            call.sent = b""
        self._unread[call.id], now = len(call.sent), time.time()

        @cache  # a write that fails is tried again
        def make() -> Trace:
            self._unread.pop(call.id, None)
            return call_trace(call, tenant=tenant, now=now)

        try:
            gate.save_trace_later(call.id, make)
        except MillgateError as error:
            self._unread.pop(call.id, None)
            metrics.count_lost_trace()
            LOGGER.warning("the trace of the model call %s is lost: %s", call.id, describe(error))
