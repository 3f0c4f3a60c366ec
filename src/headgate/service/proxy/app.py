"""Plug: the proxy in the service, behind the same door: keys, limits, log and metrics.

Streams take longer than other requests, so the door's deadline does not hold for them; the upstream's own limits do.
What the door refuses on these paths is told in the way of their APIs.
"""

from collections.abc import Callable

from fastapi import FastAPI
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.errors import HeadgateError, ScopeError
from headgate.guard.dialects import dialect_for
from headgate.guard.dialects.error_codes import status_of
from headgate.service.problems import refusal
from headgate.service.proxy.model_call import ModelCall
from headgate.service.proxy.paths import is_proxied
from headgate.service.proxy.proxy import Proxy
from headgate.service.proxy.routes import routes
from headgate.service.request_state import Caller, Visit
from headgate.service.state import Hub
from headgate.types import Context, Request


def plug(app: FastAPI, hub: Hub) -> None:
    """Mount the proxy that the settings describe."""
    settings = hub.gate.parts.settings

    async def gate(request: Request) -> Context:
        return await hub.gate_for(Caller(request.tenant, frozenset())).acontext_for(request)

    def observe(_: Scope, call: ModelCall) -> None:
        if call.report is not None:
            hub.metrics.guarded(call.report)

    proxy = Proxy(settings.proxy, settings.guard, gate=gate, tenant=_tenant, observe=observe)
    app.router.routes.extend(routes(proxy, wrap=_admitted))
    hub.endings.append(proxy.close)


def refused(error: HeadgateError, scope: Scope, request_id: str) -> Response:
    """What the door refuses, as the path's API says it."""
    said = refusal(error, request_id)
    if not is_proxied(scope["path"]):
        return said
    names = ("retry-after", "www-authenticate")
    headers = {name: said.headers[name] for name in names if name in said.headers}
    return JSONResponse(dialect_for(scope["path"]).error(error), status_of(error), headers)


def _admitted(app: ASGIApp) -> Callable[[Scope, Receive, Send], object]:
    """The application for callers who may read, without the door's deadline."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        visit = _visit(scope)
        if visit.caller is None or "read" not in visit.caller.scopes:
            hint = "make one with: headgate keys create --scope read"
            error = ScopeError("this key lacks the scope read", hint=hint)
            await refused(error, scope, visit.id)(scope, receive, send)
            return
        if visit.deadline is not None:
            visit.deadline.reschedule(None)
        await app(scope, receive, send)

    return serve


def _visit(scope: Scope) -> Visit:
    visit: Visit = scope["headgate"]
    return visit


def _tenant(scope: Scope) -> str:
    caller = _visit(scope).caller
    return caller.tenant if caller else ""
