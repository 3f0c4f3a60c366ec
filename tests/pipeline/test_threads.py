"""The threads of stages: few, shared, and closed with the gate."""

import asyncio
import threading
from contextvars import ContextVar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headgate import wiring
from headgate.errors import StoreError
from headgate.gateway import Headgate
from headgate.pipeline.threads import COMPUTING, WAITING, StageThreads
from headgate.settings import Settings
from headgate.stores.memory.store import MemoryStore
from headgate.wiring import Own


@pytest.fixture
def threads():
    made = StageThreads(2)
    yield made
    made.close()


def stage_threads():
    return {t for t in threading.enumerate() if t.name.startswith("headgate-stage")}


async def test_no_more_run_at_once_than_there_are_threads_and_none_is_lost(threads):
    before, both, many = stage_threads(), threading.Barrier(2), 10
    running, most, lock = 0, 0, threading.Lock()

    def work(n):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait(20)  # two at a time, or never
        with lock:
            running -= 1
        return n

    results = await asyncio.gather(*(threads.run(work, n) for n in range(many)))
    assert results == list(range(many))
    assert most == 2
    assert len(stage_threads() - before) == 2


async def test_work_sees_the_context_variables_of_its_caller_and_raises_to_it(threads):
    request = ContextVar("request")
    request.set("r1")
    assert await threads.run(request.get) == "r1"
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 1, 0)


def test_event_loops_share_the_threads(threads):
    assert [asyncio.run(threads.run(int, str(n))) for n in range(3)] == [0, 1, 2]


async def test_closing_waits_for_what_runs_and_refuses_what_comes_later(threads):
    began, go, ended = threading.Event(), threading.Event(), []

    def work():
        began.set()
        go.wait(20)
        ended.append(1)

    running = asyncio.ensure_future(threads.run(work))
    await asyncio.to_thread(began.wait, 20)
    closing = asyncio.ensure_future(asyncio.to_thread(threads.close))
    go.set()
    await asyncio.gather(running, closing)
    assert ended == [1]
    with pytest.raises(StoreError, match="closed"):
        await threads.run(int)


def test_a_gate_ends_its_threads_when_it_is_closed(tmp_path):
    before = stage_threads()
    with Headgate.open(tmp_path) as gate:
        gate.add([{"id": "a", "text": "The ferry leaves at nine."}])
        assert gate.context("when does the ferry leave?").chunks
        assert len(stage_threads() - before) in (1, COMPUTING)
    assert stage_threads() <= before


class Vectors:
    name, dim = "own/1", 2

    def embed(self, texts):
        return [[1.0, 0.0] for _ in texts]


@pytest.mark.parametrize(
    ("own", "most"),
    [
        ({}, COMPUTING),
        ({"clock": lambda: 1.0}, COMPUTING),
        ({"store": MemoryStore()}, WAITING),
        ({"embedder": Vectors()}, WAITING),
        ({"counter": len}, WAITING),
    ],
)
def test_parts_of_the_callers_own_may_wait_and_have_more_threads(own, most):
    assert threads_at_once(Settings(store=":memory:"), Own(**own)) == most


def test_a_remote_embedder_waits_and_has_more_threads(embeddings):
    settings = Settings(store=":memory:", embed={"url": embeddings, "model": "m"})
    assert threads_at_once(settings, Own()) == WAITING


def threads_at_once(settings, own):
    """How many threads work at once where there is work for any number."""
    parts = wiring.build(settings, own)
    before, go = stage_threads(), threading.Event()

    async def fill():
        many = range(2 * WAITING)
        waiting = [asyncio.ensure_future(parts.threads.run(go.wait, 20)) for _ in many]
        await asyncio.sleep(0)  # each is handed to a thread, if there is one
        at_once = len(stage_threads() - before)
        go.set()
        await asyncio.gather(*waiting)
        return at_once

    try:
        return asyncio.run(fill())
    finally:
        parts.close()


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        body = b'{"data": [{"index": 0, "embedding": [1.0, 0.0]}]}'
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def embeddings():
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        serving.join()
