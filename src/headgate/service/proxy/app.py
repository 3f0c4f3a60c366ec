"""Plug: the proxy in the service, behind the same door: keys, limits, log and metrics.

Streams take longer than other requests, so the door's deadline does not hold for them; the upstream's own limits do.
What the door refuses on these paths is told in the way of their APIs.
"""

from collections.abc import Callable

from fastapi import FastAPI
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.errors import HeadgateError, ScopeError
from headgate.guard.report import GuardReport
from headgate.service.problems import refusal
from headgate.service.proxy.paths import proxied
from headgate.service.proxy.proxy import Proxy
from headgate.service.proxy.routes import routes
from headgate.service.proxy.speech import ChatSpeech, MessagesSpeech, Speech, status_of
from headgate.service.request_state import Caller, RequestState
from headgate.service.state import ServiceState
from headgate.types import Context, Request


def plug(app: FastAPI, service: ServiceState) -> None:
    """Mount the proxy that the settings describe."""
    settings = service.gate.settings

    async def gate(request: Request) -> Context:
        return await service.gate_for(Caller(request.tenant, frozenset())).acontext_for(request)

    def observe(_: Scope, report: GuardReport) -> None:
        service.metrics.count_stream(report)

    proxy = Proxy(settings.proxy, settings.guard, gate=gate, tenant=_tenant, observe=observe)
    app.router.routes.extend(routes(proxy, wrap=_admitted))
    service.on_shutdown.append(proxy.close)


def refused(error: HeadgateError, scope: Scope, request_id: str) -> Response:
    """What the door refuses, as the path's API says it."""
    said = refusal(error, request_id)
    if not proxied(scope["path"]):
        return said
    speech: Speech = MessagesSpeech() if "/messages" in scope["path"] else ChatSpeech()
    names = ("retry-after", "www-authenticate")
    headers = {name: said.headers[name] for name in names if name in said.headers}
    return JSONResponse(speech.error(error), status_of(error), headers)


def _admitted(app: ASGIApp) -> Callable[[Scope, Receive, Send], object]:
    """The application for callers who may read, without the door's deadline."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        state = _state(scope)
        if state.caller is None or "read" not in state.caller.scopes:
            hint = "make one with: headgate keys create --scope read"
            error = ScopeError("this key lacks the scope read", hint=hint)
            await refused(error, scope, state.id)(scope, receive, send)
            return
        if state.deadline is not None:
            state.deadline.reschedule(None)
        await app(scope, receive, send)

    return serve


def _state(scope: Scope) -> RequestState:
    state: RequestState = scope["headgate"]
    return state


def _tenant(scope: Scope) -> str:
    caller = _state(scope).caller
    return caller.tenant if caller else ""
