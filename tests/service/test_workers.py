"""The supervisor of workers: which deaths are early, when it gives up, and how long it waits at the end."""

import os
import socket
import threading

import pytest
from uvicorn import Config

from millgate.service import workers
from millgate.service.workers import (
    MAX_EARLY_DEATHS,
    METRICS_FOLDER,
    MIN_LIFE_S,
    STOP_MARGIN_S,
    _environment,
    _Supervisor,
)


class Worker:
    """A process that died, or that joins after some seconds of its own clock."""

    pid = 1

    def __init__(self, clock=None, takes_s=0.0):
        self.exitcode, self.process = 3, self
        self.clock, self.takes_s, self.killed, self.waited = clock, takes_s, False, []

    def join(self, timeout=None):
        self.waited.append(timeout)
        if timeout is not None:
            spent = min(timeout, self.takes_s)
            self.clock[0] += spent
            self.takes_s -= spent

    def is_alive(self):
        return self.takes_s > 0 and not self.killed

    def kill(self):
        self.killed = True


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(workers.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def supervisor():
    found = object.__new__(_Supervisor)
    found.config = Config("app", timeout_worker_healthcheck=5, timeout_graceful_shutdown=10)
    found.failure, found._started, found._early_deaths = "", {}, 0
    found.should_exit, found.processes = threading.Event(), []
    return found


def die(supervisor, clock, after_s):
    process = Worker()
    supervisor._started = {process: clock[0] - after_s}
    supervisor._count_death(process)


def test_workers_that_keep_dying_early_end_the_service(supervisor, clock):
    for _ in range(MAX_EARLY_DEATHS):
        die(supervisor, clock, MIN_LIFE_S + 5 - 0.01)
    assert not supervisor.should_exit.is_set()
    die(supervisor, clock, MIN_LIFE_S + 5 - 0.01)
    assert supervisor.should_exit.is_set()
    assert "exit code 3" in supervisor.failure


def test_a_worker_that_lived_long_enough_begins_the_count_anew(supervisor, clock):
    for _ in range(MAX_EARLY_DEATHS):
        die(supervisor, clock, 0.0)
    die(supervisor, clock, MIN_LIFE_S + 5)
    assert supervisor._early_deaths == 0
    die(supervisor, clock, 0.0)
    assert not supervisor.should_exit.is_set()


def test_all_workers_share_the_time_to_stop_and_the_late_are_killed(supervisor, clock):
    whole = 10 + STOP_MARGIN_S
    supervisor.processes = [Worker(clock, 4.0), Worker(clock, whole), Worker(clock, 1.0)]
    supervisor.join_all()
    assert [worker.killed for worker in supervisor.processes] == [False, True, True]
    assert [worker.waited for worker in supervisor.processes] == [[whole, None], [whole - 4, None], [0.0, None]]  # fmt: skip
    supervisor.config.timeout_graceful_shutdown = None
    supervisor.processes = [Worker(clock, STOP_MARGIN_S + 1)]
    supervisor.join_all()
    assert supervisor.processes[0].waited == [STOP_MARGIN_S, None]


def test_told_to_stop_it_takes_no_connection_that_nobody_would_answer(supervisor):
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    supervisor.sockets = [listener]
    socket.create_connection(address).close()
    supervisor.terminate_all()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


@pytest.mark.parametrize("former", [None, "/elsewhere"])
def test_workers_inherit_the_folder_of_metrics_and_then_it_is_as_before(monkeypatch, former):
    if former is None:
        monkeypatch.delenv(METRICS_FOLDER, raising=False)
    else:
        monkeypatch.setenv(METRICS_FOLDER, former)
    with _environment("/shared"):
        assert os.environ[METRICS_FOLDER] == "/shared"
    assert os.environ.get(METRICS_FOLDER) == former
