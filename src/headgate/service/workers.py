"""Workers: several processes that share one listening socket.

Each is a whole service over the same store; only the metrics are brought together, through a folder. One that dies
is replaced; when new ones keep dying the reason is theirs, and the service ends with it. Told to stop, all of
them drain at once.
"""

import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess

from headgate.errors import ConfigError
from headgate.settings import Settings

YOUNG_S = 10.0  # a worker that lives shorter than this did not die of work
PATIENCE_S = 5.0  # beyond the drain: how long a worker may take to go


def supervise(settings: Settings, listener: socket.socket) -> None:
    """Keep the workers running until told to stop."""
    stop = threading.Event()
    former = {
        sig: signal.signal(sig, lambda *_: stop.set()) for sig in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-") as folder:
            crew = _Crew(lambda: _start(settings, folder, listener), settings.service.workers)
            try:
                while not stop.wait(0.2):
                    crew.mend()
            finally:
                crew.end(settings.service.drain_s + PATIENCE_S)
    finally:
        for sig, handler in former.items():
            signal.signal(sig, handler)


class _Crew:
    """The workers, and how often the last ones died young."""

    def __init__(self, start: Callable[[], SpawnProcess], size: int) -> None:
        self._start = start
        self._born = {start(): time.monotonic() for _ in range(size)}
        self._young_deaths = 0

    def mend(self) -> None:
        """Replace those that died."""
        for worker, born in list(self._born.items()):
            if worker.is_alive():
                continue
            young = time.monotonic() - born < YOUNG_S
            self._young_deaths = self._young_deaths + 1 if young else 0
            del self._born[worker]
            if self._young_deaths > 3:
                raise ConfigError(
                    f"workers keep ending as soon as they begin (exit code {worker.exitcode})",
                    hint="the lines above say why; try: headgate serve --workers 1",
                )
            self._born[self._start()] = time.monotonic()

    def end(self, within_s: float) -> None:
        """Ask all to end, then wait; what does not end is killed."""
        last = time.monotonic() + within_s
        for worker in self._born:
            worker.terminate()
        for worker in self._born:
            worker.join(max(0.0, last - time.monotonic()))
            if worker.is_alive():
                worker.kill()
                worker.join()


def _start(settings: Settings, folder: str, listener: socket.socket) -> SpawnProcess:
    worker = get_context("spawn").Process(target=_work, args=(settings, folder, listener))
    worker.start()
    return worker


def _work(settings: Settings, folder: str, listener: socket.socket) -> None:
    from headgate.service.server import work  # noqa: PLC0415  (the server names its workers)

    work(settings, folder, listener)
