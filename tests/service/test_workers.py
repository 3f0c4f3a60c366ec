"""The supervisor of workers: when it gives up, and how it ends."""

import signal
import socket
from types import SimpleNamespace

import pytest
from uvicorn import Config
from uvicorn.supervisors import multiprocess

from millgate.service import workers
from millgate.service.workers import MAX_DEATHS, STOP_MARGIN_S, WITHIN_S, Supervisor


class Worker:
    """What uvicorn makes of a process: one that lives or died, or joins after some seconds."""

    pid = 1

    def __init__(self, *_, clock=None, takes_s=0.0, exitcode=None):
        self.exitcode, self.process = exitcode, self
        self.clock, self.takes_s, self.killed, self.waited = clock, takes_s, False, []

    def start(self):
        pass

    def join(self, timeout=None):
        self.waited.append(timeout)
        if timeout is not None:
            spent = min(timeout, self.takes_s)
            self.clock[0] += spent
            self.takes_s -= spent

    def is_alive(self, timeout=None):
        """Both a process and uvicorn's holder of one."""
        return self.exitcode is None if timeout else self.takes_s > 0 and not self.killed

    def kill(self):
        self.killed = True


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def supervisor(monkeypatch):
    monkeypatch.setattr(multiprocess, "Process", Worker)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # uvicorn's supervisor takes them all
    config = Config("app", timeout_worker_healthcheck=5, timeout_graceful_shutdown=10)
    return Supervisor(config, [])


def die(supervisor, exitcode=7):
    dead, well = Worker(exitcode=exitcode), Worker()
    supervisor.processes = [dead, well]
    supervisor.keep_subprocess_alive()
    return supervisor.processes[0] is not dead and supervisor.processes[1] is well


def test_a_dead_worker_is_replaced_at_once(supervisor, clock):
    assert die(supervisor)
    assert clock == [1000.0]


def test_workers_that_keep_dying_end_the_service(supervisor, clock):
    for _ in range(MAX_DEATHS - 1):
        die(supervisor)
    assert not supervisor.should_exit.is_set()
    clock[0] += WITHIN_S - 0.01
    die(supervisor)
    assert supervisor.should_exit.is_set()
    assert "exit code 7" in supervisor.failure


def test_a_worker_that_cannot_start_ends_the_service_at_once(supervisor, clock):
    die(supervisor, exitcode=3)
    assert "exit code 3" in supervisor.failure


def test_workers_that_die_now_and_then_are_replaced(supervisor, clock):
    for _ in range(3 * MAX_DEATHS):
        assert die(supervisor)
        clock[0] += WITHIN_S / (MAX_DEATHS - 1)
    assert not supervisor.should_exit.is_set()


def test_all_workers_share_the_time_to_stop_and_the_late_are_killed(supervisor, clock):
    whole = 10 + STOP_MARGIN_S
    supervisor.processes = [Worker(clock=clock, takes_s=s) for s in (4.0, whole, 1.0)]
    supervisor.join_all()
    assert [worker.killed for worker in supervisor.processes] == [False, True, True]
    assert [worker.waited for worker in supervisor.processes] == [[whole, None], [whole - 4, None], [0.0, None]]  # fmt: skip
    supervisor.config.timeout_graceful_shutdown = None
    supervisor.processes = [Worker(clock=clock, takes_s=STOP_MARGIN_S + 1)]
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
