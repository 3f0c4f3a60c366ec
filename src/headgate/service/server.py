"""Server: uvicorn that drains before it goes.

Told to stop, it takes no new connection, gives what is under way `drain_s` to end (then it is answered with 503), and
closes the store. With several workers each is a process of its own over the same socket and the same store.
"""

import logging
import socket
import sys
from contextlib import suppress
from functools import partial

import uvicorn

from headgate.errors import ConfigError
from headgate.gateway import Headgate
from headgate.policy import ServicePolicy
from headgate.service.admission import Desk
from headgate.service.app import from_settings
from headgate.service.auth import locked, loopback
from headgate.service.workers import supervise
from headgate.settings import Settings

MARGIN_S = 2.0  # after the drain: time to send the last answers before connections are cut
BACKLOG = 2048


class Server(uvicorn.Server):
    """Tells the app's desk when the end begins, so that it answers what the end cuts off."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, drain, close."""
        desk = self._desk()
        if desk is not None:
            drain_s = (self.config.timeout_graceful_shutdown or 0) - MARGIN_S
            desk.drain(max(0.0, drain_s))
        await super().shutdown(sockets)

    def _desk(self) -> Desk | None:
        app = self.config.loaded_app
        while app is not None and not hasattr(app, "state"):
            app = getattr(app, "app", None)
        return app.state.hub.desk if app is not None else None


def bind(policy: ServicePolicy) -> socket.socket:
    """A listening socket at the policy's address."""
    family = socket.AF_INET6 if ":" in policy.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((policy.host, policy.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {policy.host}:{policy.port}: {error.strerror or error}",
            hint="choose another with --host and --port (0 takes a free one)",
        ) from error
    listener.listen(BACKLOG)
    listener.set_inheritable(True)
    return listener


def check(settings: Settings) -> None:
    """Refuse an address that others can reach while nobody needs a key."""
    if loopback(settings.service.host):
        return
    with Headgate.open(settings=settings) as gate:
        if not locked(gate.parts.store):
            raise ConfigError(
                f"{settings.service.host} can be reached from elsewhere, and no API key exists",
                hint="make one with: headgate keys create, or listen on 127.0.0.1",
            )


def configure(settings: Settings, folder: str | None = None) -> uvicorn.Config:
    """How uvicorn runs the service of some settings."""
    policy = settings.service
    return uvicorn.Config(
        partial(from_settings, settings, folder),
        factory=True,
        proxy_headers=False,  # else a caller could say where it comes from
        server_header=False,
        access_log=False,  # the request log tells more
        log_config=None,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(policy.drain_s + MARGIN_S),
    )


def serve(settings: Settings, listener: socket.socket) -> None:
    """Serve until told to stop."""
    if settings.service.workers > 1:
        supervise(settings, listener)
    else:
        work(settings, None, listener)


def work(settings: Settings, folder: str | None, listener: socket.socket) -> None:
    """Serve in this process."""
    logs()
    with suppress(KeyboardInterrupt):  # raised again by uvicorn after its shutdown
        Server(configure(settings, folder)).run(sockets=[listener])


def logs() -> None:
    """Request lines as they are, everything else with its level, both on stderr."""
    lines, rest = logging.StreamHandler(sys.stderr), logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter("%(message)s"))
    rest.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    requests, uvicorns = logging.getLogger("headgate.request"), logging.getLogger("uvicorn")
    for logger, handler, level in ((requests, lines, logging.INFO), (uvicorns, rest, logging.WARNING)):  # fmt: skip
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
