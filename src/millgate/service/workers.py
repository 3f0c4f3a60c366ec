"""Workers: several processes under uvicorn's supervisor, which shares the socket and replaces those that die.

What is added here: the private folder through which the workers share metrics; health checks that nothing waits for; an
end to the service when workers keep dying as soon as they start; and a limit on how long the others may take to stop.
"""

import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from uvicorn import Config
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from millgate.errors import ConfigError

LOGGER = logging.getLogger("millgate.workers")
# A worker that serves shorter than this did not die of its work but of its settings or its machine.
MIN_LIFE_S = 10.0
MAX_EARLY_DEATHS = (
    3  # in a row; one more ends the service, since a fourth attempt would hardly differ
)
STOP_MARGIN_S = 5.0  # beyond the graceful shutdown: how long a worker may take to stop
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client when a worker imports it


def run_workers(configure: Callable[[str], Config], listener: socket.socket) -> None:
    """Keep the workers running until told to stop. ConfigError when they cannot be kept running."""
    with tempfile.TemporaryDirectory(prefix="millgate-") as folder:
        os.environ[METRICS_FOLDER] = folder  # the workers inherit it
        try:
            supervisor = Supervisor(configure(folder), [listener])
            supervisor.run()
        finally:
            del os.environ[METRICS_FOLDER]
    if supervisor.failure:
        raise ConfigError(
            supervisor.failure, hint="the lines above say why; try: millgate serve --workers 1"
        )


@dataclass(slots=True)
class _Health:
    """What is known of a worker: since when it waits for an answer to its question, and since when it serves."""

    asked: float | None = None
    serves: float | None = None


class Supervisor(Multiprocess):
    """uvicorn's supervisor, with health checks that wait for nobody, and bounds on restarts and on the time to stop.

    uvicorn waits for each answer in turn. So a signal, and the death of another worker, were heard when that wait was
    over; and a worker that was still importing on a busy machine was taken for one that hangs.
    """

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.failure = ""
        self._health: dict[Process, _Health] = {}
        self._early_deaths = 0

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died or hang, and stop the service when the new ones keep dying."""
        now = time.monotonic()
        self._health = {p: self._health.get(p, _Health()) for p in self.processes}
        for at, (process, health) in enumerate(self._health.items()):
            if process.exitcode is None and not self._hangs(process, health, now):
                continue
            process.kill()
            process.join()
            self._count_death(process, health, now)
            if self.should_exit.is_set():
                return
            self.processes[at] = Process(self.config, self.sockets)
            self.processes[at].start()

    def _hangs(self, process: Process, health: _Health, now: float) -> bool:
        """Whether a worker that served has not answered for too long. It is asked again once it has."""
        try:
            while process.parent_conn.poll():
                health.asked = None
                if process.parent_conn.recv() and health.serves is None:
                    health.serves = now
            if health.asked is None:
                process.parent_conn.send(b"ping")
                health.asked = now
        except (OSError, EOFError):
            return False  # it ended just now
        return (
            health.serves is not None
            and now - health.asked > self.config.timeout_worker_healthcheck
        )

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

    def _count_death(self, process: Process, health: _Health, now: float) -> None:
        LOGGER.warning("worker %s ended with exit code %s", process.pid, process.exitcode)
        is_early = health.serves is None or now - health.serves < MIN_LIFE_S
        self._early_deaths = self._early_deaths + 1 if is_early else 0
        if process.exitcode == STARTUP_FAILURE or self._early_deaths > MAX_EARLY_DEATHS:
            self.failure = (
                f"workers keep ending as soon as they start (exit code {process.exitcode})"
            )
            self.should_exit.set()
