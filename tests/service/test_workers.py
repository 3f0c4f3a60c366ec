"""The supervisor of workers: which of them hang, which deaths are early, when it gives up, and how it ends."""

import signal
import socket
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
from uvicorn import Config

from millgate.service import workers
from millgate.service.workers import (
    MAX_EARLY_DEATHS,
    MIN_LIFE_S,
    STOP_MARGIN_S,
    Supervisor,
)


class Worker:
    """What uvicorn makes of a process: one that serves or not, answers or not, died, or joins after some seconds."""

    pid = 1

    def __init__(self, *_, clock=None, takes_s=0.0, exitcode=None):
        self.exitcode, self.process = exitcode, self
        self.clock, self.takes_s, self.killed, self.waited = clock, takes_s, False, []
        self.parent_conn, self.child_conn = Pipe()

    def start(self):
        pass

    def answer(self, *, serves):
        self.child_conn.recv()
        self.child_conn.send(serves)

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
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def supervisor(monkeypatch):
    monkeypatch.setattr(workers, "Process", Worker)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # uvicorn's supervisor takes them all
    config = Config("app", timeout_worker_healthcheck=5, timeout_graceful_shutdown=10)
    return Supervisor(config, [])


def test_a_worker_that_does_not_serve_yet_is_never_taken_for_one_that_hangs(supervisor, clock):
    busy = Worker()
    supervisor.processes = [busy]
    for _ in range(3):
        supervisor.keep_subprocess_alive()
        clock[0] += 1000
    busy.answer(serves=False)
    supervisor.keep_subprocess_alive()
    clock[0] += 1000
    supervisor.keep_subprocess_alive()
    assert not busy.killed


def test_a_worker_that_served_and_is_silent_is_replaced(supervisor, clock):
    hung, well = Worker(), Worker()
    supervisor.processes = [hung, well]
    supervisor.keep_subprocess_alive()
    for worker in (hung, well):
        worker.answer(serves=True)
    supervisor.keep_subprocess_alive()
    clock[0] += 4
    supervisor.keep_subprocess_alive()
    assert not hung.killed
    well.answer(serves=True)
    clock[0] += 2
    supervisor.keep_subprocess_alive()
    assert (hung.killed, well.killed) == (True, False)
    assert supervisor.processes[0] is not hung
    assert supervisor.processes[1] is well


def die(supervisor, clock, *, after_s=None, exitcode=7):
    """Let a worker die that served for some seconds, or never."""
    worker = Worker()
    supervisor.processes = [worker]
    supervisor.keep_subprocess_alive()
    if after_s is not None:
        worker.answer(serves=True)
        supervisor.keep_subprocess_alive()
        clock[0] += after_s
    worker.exitcode = exitcode
    supervisor.keep_subprocess_alive()
    return worker not in supervisor.processes


def test_a_dead_worker_is_replaced_at_once(supervisor, clock):
    assert die(supervisor, clock)
    assert clock == [1000.0]


def test_workers_that_keep_dying_early_end_the_service(supervisor, clock):
    for n in range(MAX_EARLY_DEATHS):
        die(supervisor, clock, after_s=(MIN_LIFE_S - 0.01 if n % 2 else None))
    assert not supervisor.should_exit.is_set()
    die(supervisor, clock)
    assert supervisor.should_exit.is_set()
    assert "exit code 7" in supervisor.failure


def test_a_worker_that_cannot_start_ends_the_service_at_once(supervisor, clock):
    die(supervisor, clock, exitcode=3)
    assert "exit code 3" in supervisor.failure


def test_a_worker_that_served_long_enough_begins_the_count_anew(supervisor, clock):
    for _ in range(MAX_EARLY_DEATHS):
        die(supervisor, clock)
    die(supervisor, clock, after_s=MIN_LIFE_S)
    for _ in range(MAX_EARLY_DEATHS):
        die(supervisor, clock)
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
