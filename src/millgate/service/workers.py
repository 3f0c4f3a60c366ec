"""Workers: several processes under uvicorn's supervisor, which shares the socket and replaces those that die.

What is added here: the private folder through which the workers share metrics; an end to the service when
workers keep dying as soon as they start; and a limit on how long the others may take to stop.
"""

import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from uvicorn import Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from millgate.errors import ConfigError

LOGGER = logging.getLogger("millgate.workers")
# A worker that lives shorter than this did not die of its work but of its settings or its machine. Chosen, not
# measured.
MIN_LIFE_S = 10.0
MAX_EARLY_DEATHS = (
    3  # in a row; one more ends the service, since a fourth attempt would hardly differ
)
STOP_MARGIN_S = 5.0  # beyond the graceful shutdown: how long a worker may take to stop
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client when a worker imports it


def run_workers(configure: Callable[[str], Config], listener: socket.socket) -> None:
    """Keep the workers running until told to stop. ConfigError when they cannot be kept running."""
    with tempfile.TemporaryDirectory(prefix="millgate-") as folder, _environment(folder):
        supervisor = _Supervisor(configure(folder), [listener])
        supervisor.run()
    if supervisor.failure:
        raise ConfigError(
            supervisor.failure, hint="the lines above say why; try: millgate serve --workers 1"
        )


class _Supervisor(Multiprocess):
    """uvicorn's supervisor, with bounds on restarts and on the time to stop."""

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.failure = ""
        self._started: dict[Process, float] = {}
        self._early_deaths = 0

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died, and stop the service when the new ones keep dying."""
        if self.should_exit.is_set():
            return
        watched = tuple(self.processes)
        self._started = {p: self._started.get(p, time.monotonic()) for p in watched}
        super().keep_subprocess_alive()
        for process in watched:
            if process.exitcode is not None:
                self._count_death(process)

    def terminate_all(self) -> None:
        """Tell the workers to stop. Without them nobody answers a new connection, so it is refused."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait for the workers to stop; kill those that do not."""
        last = time.monotonic() + (self.config.timeout_graceful_shutdown or 0) + STOP_MARGIN_S
        for worker in self.processes:
            worker.process.join(max(0.0, last - time.monotonic()))
            if worker.process.is_alive():
                LOGGER.warning("worker %s did not stop in time and is killed", worker.pid)
                worker.process.kill()
            worker.process.join()

    def _count_death(self, process: Process) -> None:
        LOGGER.warning("worker %s ended with exit code %s", process.pid, process.exitcode)
        # A worker that dies while it starts is noticed only when its health check times out.
        noticed_s = self.config.timeout_worker_healthcheck
        early = time.monotonic() - self._started[process] < MIN_LIFE_S + noticed_s
        self._early_deaths = self._early_deaths + 1 if early else 0
        if self.should_exit.is_set() or self._early_deaths > MAX_EARLY_DEATHS:
            self.failure = (
                f"workers keep ending as soon as they start (exit code {process.exitcode})"
            )
            self.should_exit.set()


@contextmanager
def _environment(folder: str) -> Iterator[None]:
    """Let the workers inherit the folder for their metrics."""
    former = os.environ.get(METRICS_FOLDER)
    os.environ[METRICS_FOLDER] = folder
    try:
        yield
    finally:
        os.environ.pop(METRICS_FOLDER)
        if former is not None:
            os.environ[METRICS_FOLDER] = former
