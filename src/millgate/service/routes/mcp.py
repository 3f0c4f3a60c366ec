"""/mcp: the MCP server over streamable HTTP, under the same keys, scopes, tenants and limits as every other route.

It keeps no session: each request stands for itself, so that any worker can serve it. A call ends when its client
disconnects. A page of another origin is refused, with a key or without one; a caller without a key must name this
machine in its Host header, as everywhere in the service. The `mcp` package is imported with the first request.
"""

import asyncio
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from millgate.errors import InputError, LimitError, MissingExtra, ScopeError
from millgate.keys import missing_scope
from millgate.service.edge.body import BufferedReceive
from millgate.service.edge.origin import is_same_origin
from millgate.service.observe.request_state import state_of
from millgate.service.state import ServiceState
from millgate.text.bounded_json import HUGE, why_too_large

PATH = "/mcp"
PARTS = ("mcp.server.streamable_http_manager", "millgate.integrations.mcp.server", "millgate.integrations.mcp.tools")  # fmt: skip


def mount(app: FastAPI, service: ServiceState) -> None:
    """Mount the server at /mcp."""
    endpoint = McpEndpoint(service)
    app.router.routes.append(Route(PATH, endpoint, methods=["POST"], include_in_schema=False))
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
        _check_caller(scope)
        async with self._starting:
            if self._running is None:
                await self._start()
        body = (await receive()).get("body", b"")
        _check_body(body)
        await self._sessions.handle_request(scope, BufferedReceive(body, receive), send)

    async def close(self) -> None:
        """End the server and what it still serves."""
        if self._running is not None:
            self._stop.set()
            await self._running

    async def _start(self) -> None:
        try:
            manager, server, tools = await asyncio.to_thread(lambda: [*map(import_module, PARTS)])
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name, extra="mcp") from error

        def access_of(call: Any) -> Any:  # noqa: ANN401  (its types are in an extra)
            caller = state_of(call.request).caller
            assert caller is not None
            return tools.Access(
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


def _check_caller(scope: Scope) -> None:
    """Refuse a request of another origin, and a key that may not read."""
    if not is_same_origin(dict(scope["headers"])):
        raise ScopeError("a page of another origin may not use this server")
    caller = scope["millgate"].caller
    scopes = caller.scopes if caller else ()
    if "read" not in scopes:
        raise missing_scope("read", scopes)


def _check_body(body: bytes) -> None:
    """Refuse what is not even parsed. The protocol has no batches; of one, each message would be tried in all forms."""
    if body.lstrip()[:1] == b"[":
        raise InputError("the body is a list", hint="send one message a request")
    if len(body) > HUGE:  # the protocol's parser holds it several times
        raise LimitError(f"the body is larger than {HUGE:,} bytes", hint="send less")
    if why := why_too_large(body):
        raise LimitError(f"the body is too large: {why}", hint="send less")
