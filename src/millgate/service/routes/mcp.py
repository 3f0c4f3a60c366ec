"""/mcp: the MCP server over streamable HTTP, under the same keys, scopes, tenants and limits as every other route.

It keeps no session: each request stands for itself, so that any worker can serve it. A call ends when its client
disconnects. A page of another origin is refused, with a key or without one; a caller without a key must name this
machine in its Host header, as everywhere in the service. The `mcp` package is imported with the first request.
"""

import asyncio
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from millgate.errors import AccessError, InputError, LimitError, MissingExtra, ScopeError
from millgate.keys import missing_scope
from millgate.service.edge.body import BufferedReceive
from millgate.service.edge.origin import is_same_origin
from millgate.service.edge.problems import refusal
from millgate.service.observe.request_state import RequestState, state_of
from millgate.service.state import ServiceState
from millgate.text.bounded_json import HUGE, why_too_large

PATH = "/mcp"


def mount(app: FastAPI, service: ServiceState) -> None:
    """Mount the server at /mcp."""
    endpoint = McpEndpoint(service)
    app.router.routes.append(Route(PATH, endpoint, methods=None, include_in_schema=False))
    service.on_shutdown.append(endpoint.close)


class McpEndpoint:
    """The server as an ASGI application. It starts with the first request and runs until it is closed."""

    def __init__(self, service: ServiceState) -> None:
        self._service = service
        self._starting = asyncio.Lock()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._sessions: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        state: RequestState = scope["millgate"]
        if problem := _problem(scope, state):
            await refusal(problem, state.id)(scope, receive, send)
            return
        if scope["method"] != "POST":  # without sessions there is nothing to listen to or to delete
            await Response(status_code=405, headers={"allow": "POST"})(scope, receive, send)
            return
        async with self._starting:
            if self._running is None:
                await self._start()
        body = (await receive()).get("body", b"")
        if error := _refusal_of(body):
            await refusal(error, state.id)(scope, receive, send)
            return
        await self._sessions.handle_request(scope, BufferedReceive(body, receive), send)

    async def close(self) -> None:
        """End the server and what it still serves."""
        if self._running is not None:
            self._stop.set()
            await self._running

    async def _start(self) -> None:
        try:
            manager = await asyncio.to_thread(import_module, "mcp.server.streamable_http_manager")
            server = await asyncio.to_thread(import_module, "millgate.integrations.mcp.server")
            access = await asyncio.to_thread(import_module, "millgate.integrations.mcp.tools")
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name, extra="mcp") from error

        def access_of(call: Any) -> Any:  # noqa: ANN401  (its types are in an extra)
            caller = state_of(call.request).caller
            assert caller is not None
            return access.Access(
                self._service.gate_for(caller),
                caller.scopes,
                whole_documents=self._service.whole_documents,
            )

        self._sessions = manager.StreamableHTTPSessionManager(
            server.build(access_of),
            stateless=True,
            max_request_body_size=self._service.gate.settings.service.body_bytes,
        )
        started = asyncio.Event()
        self._running = asyncio.create_task(self._run(started))
        await started.wait()

    async def _run(self, started: asyncio.Event) -> None:
        """Keep the session manager open; the task that opens it must be the one that closes it."""
        try:
            async with self._sessions.run():
                started.set()
                await self._stop.wait()
        finally:
            started.set()


def _problem(scope: Scope, state: RequestState) -> AccessError | None:
    """Why a request is not served: its origin, or a key that may not read."""
    if not is_same_origin(dict(scope["headers"])):
        return ScopeError("a page of another origin may not use this server")
    if state.caller is None or "read" not in state.caller.scopes:
        return missing_scope("read", state.caller.scopes if state.caller else ())
    return None


def _refusal_of(body: bytes) -> InputError | None:
    """Why a body is not even parsed. The protocol has no batches; of one, each message would be tried in every form."""
    if body.lstrip()[:1] == b"[":
        return InputError("the body is a list", hint="send one message a request")
    if len(body) > HUGE:  # the protocol's parser holds it several times
        return LimitError(f"the body is larger than {HUGE:,} bytes", hint="send less")
    if why := why_too_large(body):
        return LimitError(f"the body is too large: {why}", hint="send less")
    return None
