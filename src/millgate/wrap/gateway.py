"""The gateway's own process: `python -m millgate.wrap.gateway SOCKET`, started and ended by the supervisor.

The first line of its input says what it shall be, and it inherits the socket on which it serves. What it prints is a
log and nothing else. It serves until its input ends, so that it never outlives the supervisor. Its only upstream is the
supervisor, and no one without the supervisor's secret is served: a store must not be open to everybody on a shared
machine.
"""

import asyncio
import hmac
import os
import socket
import sys
import threading
import time
from dataclasses import replace
from urllib.parse import quote

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from millgate.errors import MillgateError
from millgate.service.edge import problems
from millgate.service.edge.protocol import MARGIN_S
from millgate.service.proxy import app as proxy
from millgate.service.proxy.http_client import SECRET_HEADER
from millgate.service.run_config import LOGGING, configure_uvicorn
from millgate.service.state import add_admission, lifespan_of, open_gate, open_state
from millgate.settings import Settings, load
from millgate.wrap.spec import LOST_STORE, MEMORY, UPSTREAM, GatewaySpec

NEVER_S = 86_400.0  # the client of a wrapped agent decides how long it waits


def settings_for(spec: GatewaySpec) -> Settings:
    """The user's settings, with what wrapping needs."""
    upstream = {"url": spec.upstream, "answer_s": NEVER_S, "idle_s": NEVER_S}
    arguments: dict[str, object] = {
        "proxy": {"context": spec.inject, "upstreams": {UPSTREAM: upstream}},
        "service": {"host": "127.0.0.1", "port": 0, "keyless": "loopback", "log": False},
    }
    if spec.fold:
        arguments["fold"] = {"mode": "on"}
    if spec.remember:
        arguments["compaction"] = {"mode": "inject"}
    if spec.store:
        arguments["store"] = spec.store
    if spec.store == MEMORY:
        arguments["trace"] = {"keep": 0}  # the store ends with the gateway
    return load(arguments=arguments)


def open_gateway(spec: GatewaySpec) -> tuple[Starlette, Settings]:
    """The application that serves as `spec` says. The guard needs no store, so one that cannot be opened costs only
    the context and the traces.
    """
    settings = settings_for(spec)
    try:
        return proxy_alone(settings), settings
    except MillgateError as error:
        if spec.store == MEMORY:
            raise
        why = "; ".join(filter(None, (error.message, error.hint)))
        settings = settings_for(replace(spec, store=MEMORY, inject=False))
        lost = f"{spec.store or 'of your settings'}: {why}"
        return proxy_alone(settings, lost_store=lost), settings


def proxy_alone(settings: Settings, *, lost_store: str = "") -> Starlette:
    """The proxy that some settings describe, with what the supervisor asks beside it."""
    service = open_state(open_gate(settings))

    async def metrics(_: Request) -> Response:
        """The numbers of this gateway, in the Prometheus text format."""
        told = f"{LOST_STORE}{quote(lost_store)}\n" if lost_store else ""
        return PlainTextResponse(told + await asyncio.to_thread(service.metrics.text))

    app = Starlette(
        routes=[Route("/healthz", _health), Route("/metrics", metrics)],
        lifespan=lifespan_of(service, close_gate=True),
    )
    app.state.service = service
    add_admission(app, service, proxy.error_response)
    problems.install(app)
    proxy.mount(app, service)
    return app


async def _health(_: Request) -> Response:
    """Respond at once, without checking any part."""
    return PlainTextResponse("ok")


class SecretApp:
    """An application for those who know the secret."""

    def __init__(self, app: ASGIApp, secret: str) -> None:
        self._app, self._secret = app, secret.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, or answer 404."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(SECRET_HEADER, b"")
            if not hmac.compare_digest(given, self._secret):
                await PlainTextResponse("not found", 404)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _end_with_input(server: uvicorn.Server, wait_s: float) -> None:
    """End the server when the input ends, and the process if that takes longer than `wait_s`."""
    while os.read(0, 4096):  # not sys.stdin, whose lock would be held while the process ends
        pass
    server.should_exit = True
    time.sleep(wait_s)
    os._exit(1)


def main() -> None:
    """Serve as the first line of input says."""
    spec = GatewaySpec(**orjson.loads(sys.stdin.buffer.readline()))
    try:
        proxy_app, settings = open_gateway(spec)
    except MillgateError as error:
        sys.exit(f"{error.message}\nhint: {error.hint}" if error.hint else error.message)
    app = SecretApp(proxy_app, spec.secret)
    server = uvicorn.Server(configure_uvicorn(lambda: app, settings.service, log_config=LOGGING))
    # running requests may take it once, and the store as long again
    wait_s = 2 * (settings.service.drain_s + MARGIN_S)
    threading.Thread(target=_end_with_input, args=(server, wait_s), daemon=True).start()
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        server.run(sockets=[listener])


if __name__ == "__main__":
    main()
