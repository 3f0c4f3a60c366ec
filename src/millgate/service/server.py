"""Server: the service under uvicorn, in one process or several.

Told to stop, it accepts no new connection and gives running requests `drain_s` to end (then they get 503). Then it
closes the store. The protocol class tells the app when the shutdown begins; uvicorn's own server and supervisor do the
rest. A thread cannot be stopped, so the process is ended if one is still at work some seconds later.
"""

import faulthandler
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from millgate.errors import ConfigError
from millgate.gateway import Millgate
from millgate.service.app import from_settings
from millgate.service.edge.auth import has_active_key, is_loopback
from millgate.service.run_config import BACKLOG, LOGGING, configure_uvicorn
from millgate.service.workers import STOP_MARGIN_S, run_workers
from millgate.settings import Settings
from millgate.types.policy import ServicePolicy


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


def check_exposure(settings: Settings) -> None:
    """Refuse an address that others can reach while no key exists."""
    if is_loopback(settings.service.host):
        return
    with Millgate.open(settings=settings) as gate:
        if not has_active_key(gate.keys):
            raise ConfigError(
                f"{settings.service.host} can be reached from elsewhere, and no API key exists",
                hint="make one with: millgate keys create, or listen on 127.0.0.1",
            )


def configure(
    settings: Settings, folder: str | None = None, *, log_config: dict[str, Any] | None = None
) -> uvicorn.Config:
    """How uvicorn runs the service of some settings; `folder` is what its processes share."""
    app = partial(from_settings, settings, folder)
    return configure_uvicorn(app, settings.service, log_config=log_config)


class BoundedServer(uvicorn.Server):
    """A server whose process is over some seconds after it was told to stop, whatever its threads do.

    `tell` is called once it serves.
    """

    def __init__(self, config: uvicorn.Config, tell: Callable[[], object]) -> None:
        super().__init__(config)
        self._tell = tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and tell so."""
        await super().startup(sockets)
        if self.started:
            self._tell()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop. If the process is still there when its time is over, it says where its threads are, and ends.

        The watch is a thread of C's own: one of Python's would wait for those that hold the interpreter.
        """
        grace_s = (self.config.timeout_graceful_shutdown or 0) + STOP_MARGIN_S
        faulthandler.dump_traceback_later(grace_s, exit=True, file=2)
        super().handle_exit(sig, frame)


def serve(
    settings: Settings, listener: socket.socket, tell: Callable[[], object] = lambda: None
) -> None:
    """Serve until told to stop; `tell` is called once the store is open."""
    if settings.service.workers > 1:
        with Millgate.open(settings=settings):
            pass  # a store that cannot be opened is better reported once than by every worker
        tell()
        run_workers(partial(configure, settings, log_config=LOGGING), listener)
        return
    # uvicorn raises the signal again after its shutdown: a clean end should not look like a kill
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with suppress(KeyboardInterrupt):  # raised again by uvicorn after its shutdown
            BoundedServer(configure(settings, log_config=LOGGING), tell).run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, before)
