"""Workers: several processes under uvicorn's supervisor, which shares the socket and replaces those that die or hang.

What is added here: the private folder through which the workers share metrics; an end to the service when workers keep
dying; and a limit on how long they may take to stop.
"""

import logging
import os
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable

from uvicorn import Config
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess

from millgate.errors import ConfigError

LOGGER = logging.getLogger("millgate.workers")
# So many deaths in so many seconds are not those of single requests, but of the settings or the machine.
MAX_DEATHS, WITHIN_S = 4, 60.0
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


class Supervisor(Multiprocess):
    """uvicorn's supervisor, with bounds on deaths and on the time to stop; the three methods are its own hooks."""

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.failure = ""
        self._deaths = deque[float](maxlen=MAX_DEATHS)

    def keep_subprocess_alive(self) -> None:
        """Let workers that died or hang be replaced, and stop the service when the new ones keep dying."""
        before = tuple(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            if (code := process.exitcode) is None:
                continue
            LOGGER.warning("worker %s ended with exit code %s", process.pid, code)
            self._deaths.append(time.monotonic())
            is_often = len(self._deaths) == MAX_DEATHS
            if code == STARTUP_FAILURE or (is_often and self._deaths[-1] - self._deaths[0] < WITHIN_S):  # fmt: skip
                self.failure = f"workers keep ending as soon as they start (exit code {code})"
                self.should_exit.set()

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
