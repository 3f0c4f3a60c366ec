"""A real server: it answers, drains before it goes, answers what a deadline cuts, and runs in several processes."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from tests.service.clients import served, until
from tests.waiting import MOST_S

from millgate.errors import ConfigError
from millgate.gateway import Millgate
from millgate.service.server import bind, check_exposure
from millgate.settings import Settings
from millgate.stores.temporary import TemporaryStore


def quiet(store, **service):
    return Settings(store=str(store), service={"port": 0, "log": False, **service})


@pytest.fixture
def gated(monkeypatch):
    """A store whose collections can be held back, so that a request stays under way."""
    entered, leave = threading.Event(), threading.Event()
    inner = TemporaryStore.collections

    def held(self, tenant):
        if tenant == "default":
            entered.set()
            assert leave.wait(MOST_S)
        return inner(self, tenant)

    monkeypatch.setattr(TemporaryStore, "collections", held)
    yield entered, leave
    leave.set()


def asked(url, answers):
    """Ask in a thread; its answer lands in the list."""
    thread = threading.Thread(
        target=lambda: answers.append(httpx2.get(f"{url}/v1/documents", timeout=MOST_S))
    )
    thread.start()
    return thread


def test_it_answers_over_the_network_and_keeps_connections(tmp_path):
    with (
        served(quiet(tmp_path / "kb")) as (url, server),
        httpx2.Client(base_url=url, timeout=MOST_S) as client,
    ):
        rows = [{"id": "a", "text": "Refunds are paid within 14 days."}]
        assert client.post("/v1/documents", json={"documents": rows}).status_code == 200
        for _ in range(5):
            answer = client.post("/v1/context", json={"query": "refunds"})
            assert answer.json()["chunks"][0]["id"] == "a"
        assert len(server.server_state.connections) == 1


def test_what_is_under_way_at_shutdown_is_finished(gated):
    entered, leave = gated
    answers = []
    with served(quiet(":memory:", drain_s=20)) as (url, server):
        thread = asked(url, answers)
        assert entered.wait(MOST_S)
        server.should_exit = True
        until(lambda: _refused(url))
        leave.set()
        thread.join(MOST_S)
    assert [answer.status_code for answer in answers] == [200]


def test_what_the_drain_cuts_is_answered(gated):
    entered, leave = gated
    answers = []
    with served(quiet(":memory:", drain_s=0.2)) as (url, server):
        thread = asked(url, answers)
        assert entered.wait(MOST_S)
        server.should_exit = True
        thread.join(MOST_S)
        leave.set()
    assert [answer.status_code for answer in answers] == [503]
    assert answers[0].json()["detail"] == "the service is shutting down"
    assert answers[0].headers["retry-after"]


def test_a_request_cut_by_its_deadline_is_answered(gated):
    _, leave = gated
    with served(quiet(":memory:", deadline_s=0.2)) as (url, _):
        answer = httpx2.get(f"{url}/v1/documents", timeout=MOST_S)
        leave.set()
    assert answer.status_code == 504
    assert "service.deadline_s" in answer.json()["hint"]


def test_a_request_that_is_cut_off_counts_as_under_way_until_its_thread_ends(gated):
    """Else a caller whose requests all outlive their deadline would take every thread."""
    _, leave = gated
    with served(quiet(":memory:", deadline_s=0.2, concurrency=1)) as (url, _):
        assert httpx2.get(f"{url}/v1/documents", timeout=MOST_S).status_code == 504
        answer = httpx2.get(f"{url}/v1/documents", timeout=MOST_S)
        assert answer.status_code == 429
        assert "service.concurrency" in answer.json()["detail"]
        leave.set()
        until(lambda: httpx2.get(f"{url}/v1/documents", timeout=MOST_S).status_code == 200)


STUCK = """
import threading, time
from millgate.service.server import bind, serve
from millgate.settings import Settings

settings = Settings(store=":memory:", service={"port": 0, "log": False, "drain_s": 0.1})
listener = bind(settings.service)
threading.Thread(target=time.sleep, args=(3600,), name="stuck").start()
print(listener.getsockname()[1], flush=True)
serve(settings, listener)
"""


@pytest.mark.slow
def test_a_process_with_a_thread_that_does_not_end_is_over_within_the_grace_time(tmp_path):
    (tmp_path / "stuck.py").write_text(STUCK)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "stuck.py")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        until(lambda: not _refused(url))
        assert httpx2.get(f"{url}/healthz", timeout=MOST_S).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=MOST_S)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "most recent call first" in log


@contextmanager
def working(store, workers):
    """`millgate serve` with workers: its address, the process, and a list that gets its log."""
    line = [sys.executable, "-m", "millgate", "serve", "--workers", str(workers), "--port", "0", "--store", str(store)]  # fmt: skip
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = []
    try:
        url = process.stdout.readline().split()[-1]
        assert "curl" in process.stdout.readline()
        until(lambda: not _refused(url))
        yield url, process, log
    finally:
        process.send_signal(signal.SIGTERM)
        log.append(process.communicate(timeout=MOST_S)[1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds the workers in /proc")
def test_workers_share_all_and_one_that_dies_is_replaced_and_its_counts_stay(tmp_path):
    store = tmp_path / "kb"
    with Millgate.open(store) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
    with working(store, 2) as (url, process, log):
        rows = {"documents": [{"id": "b", "text": "Parcels go by rail."}]}
        assert httpx2.post(f"{url}/v1/documents", json=rows, timeout=MOST_S).status_code == 200
        for _ in range(10):
            answer = httpx2.post(f"{url}/v1/context", json={"query": "parcels"}, timeout=MOST_S)
            assert answer.json()["chunks"][0]["id"] == "b"
        until(lambda: _counted(url) == 10)
        until(lambda: len(_children(process.pid)) == 2)
        before = _children(process.pid)
        os.kill(before[0], signal.SIGKILL)
        until(lambda: set(_children(process.pid)) - set(before))
        until(lambda: _counted(url) == 10)
    assert process.returncode == 0
    assert log[0].count('"route":"/v1/context"') == 10
    assert f"worker {before[0]} ended with exit code -9" in log[0]
    assert "Traceback" not in log[0]


DYING = """
import os, socket
from uvicorn import Config
from millgate.service.workers import run_workers

def die():
    os._exit(7)

if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        run_workers(lambda _: Config(die, factory=True, workers=1, timeout_worker_healthcheck=1), listener)
"""


@pytest.mark.slow
def test_workers_that_keep_dying_end_the_service(tmp_path):
    (tmp_path / "dying.py").write_text(DYING)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "dying.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "workers keep ending as soon as they start" in done.stderr
    assert done.stderr.count("ended with exit code") == 4


def test_an_open_address_needs_a_key_first(tmp_path):
    settings = quiet(tmp_path / "kb", host="0.0.0.0")
    with pytest.raises(ConfigError, match="no API key"):
        check_exposure(settings)
    check_exposure(quiet(tmp_path / "kb", host="127.0.0.1"))


def test_a_port_that_is_taken_is_said():
    with bind(quiet(":memory:").service) as first:
        taken = quiet(":memory:", port=first.getsockname()[1]).service
        with pytest.raises(ConfigError, match="cannot listen"):
            bind(taken)


def _refused(url):
    try:
        httpx2.get(f"{url}/healthz", timeout=MOST_S)
    except httpx2.TransportError:
        return True
    return False


def _counted(url):
    """Contexts counted by all workers together."""
    text = httpx2.get(f"{url}/metrics", timeout=MOST_S).text
    (line,) = [x for x in text.splitlines() if x.startswith("millgate_contexts_total ")]
    return float(line.split()[1])


def _children(pid):
    """The workers of a supervisor, without the helper process of multiprocessing."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):  # it is gone by now
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                found.append(int(child))
    return found


def test_a_clean_end_of_one_process_is_exit_code_zero(tmp_path):
    with working(tmp_path / "kb", 1) as (url, process, _):
        assert httpx2.get(f"{url}/healthz", timeout=MOST_S).status_code == 200
    assert process.returncode == 0
