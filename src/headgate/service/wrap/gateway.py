"""The gateway's own process: `python -m headgate.service.wrap.gateway`, started and ended by the supervisor.

Its first line of input says what it shall be; it answers with one line, the port or what is wrong. It serves until its
input ends, so that it never outlives the supervisor. Its only upstream is the supervisor, and no one without the
supervisor's secret is served: a store must not be open to everybody on a shared machine.
"""

import hmac
import socket
import sys
import threading

import orjson
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.errors import HeadgateError
from headgate.service.app import from_settings
from headgate.service.server import LOGGING, bind, configure
from headgate.service.wrap.spec import MEMORY, SECRET_HEADER, UPSTREAM, GatewaySpec
from headgate.settings import Settings, load

NEVER_S = 86_400.0  # the client of a wrapped agent decides how long it waits


def settings_for(spec: GatewaySpec) -> Settings:
    """The user's settings, with what wrapping needs.

    No comments keep a stream alive, so that a stream without a loop is the upstream's to the byte: the supervisor
    sends them.
    """
    upstream = {"url": spec.upstream, "answer_s": NEVER_S, "idle_s": NEVER_S}
    arguments: dict[str, object] = {
        "proxy": {"context": spec.inject, "upstreams": {UPSTREAM: upstream}},
        "service": {"host": "127.0.0.1", "port": 0, "keyless": "loopback", "log": False},
    }
    if spec.store:
        arguments["store"] = spec.store
    if spec.store == MEMORY:
        arguments["trace"] = {"keep": 0}  # nobody could read them
    settings = load(arguments=arguments)
    guard = settings.guard.replace({"keep_alive_s": NEVER_S})
    return settings.model_copy(update={"guard": guard})


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


class _Server(uvicorn.Server):
    """uvicorn's server, which tells its port once it serves, and ends with its input."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started and sockets:
            _answer({"port": sockets[0].getsockname()[1]})
            threading.Thread(target=self._end_with_input, daemon=True).start()

    def _end_with_input(self) -> None:
        sys.stdin.buffer.read()
        self.should_exit = True


def _answer(value: dict[str, object]) -> None:
    sys.stdout.buffer.write(orjson.dumps(value) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Serve as the first line of input says."""
    spec = GatewaySpec(**orjson.loads(sys.stdin.buffer.readline()))
    try:
        settings = settings_for(spec)
        app = SecretApp(from_settings(settings), spec.secret)
    except HeadgateError as error:
        _answer({"error": error.message, "hint": error.hint})
        return
    config = configure(settings, log_config=LOGGING)
    config.app, config.factory = app, False
    with bind(settings.service) as listener:
        _Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
