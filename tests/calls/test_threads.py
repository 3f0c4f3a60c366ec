"""The threads of requests: shared, closed with the gate; and what they wait for on an event loop."""

import asyncio
import queue
import threading
from contextvars import ContextVar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.waiting import MOST_S, until

from millgate.calls.loop import LoopCalls
from millgate.calls.pool import COMPUTING, WAITING, ComputingSlots, RequestThreads
from millgate.errors import StoreError, UpstreamError
from millgate.gateway import Millgate, wiring
from millgate.gateway.wiring import UserComponents
from millgate.settings import Settings
from millgate.stores.temporary import TemporaryStore


@pytest.fixture
def threads():
    made = RequestThreads()
    yield made
    made.close()


def request_threads():
    return {t for t in threading.enumerate() if t.name.startswith("millgate-request")}


async def test_all_that_is_asked_at_once_is_under_way_and_none_is_lost(threads):
    all_here = threading.Barrier(10)

    def work(n):
        all_here.wait(MOST_S)  # ten at a time, or never
        return n

    results = await asyncio.gather(*(threads.run(work, n) for n in range(10)))
    assert results == list(range(10))


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
        go.wait(MOST_S)
        ended.append(1)

    running = asyncio.ensure_future(threads.run(work))
    await asyncio.to_thread(began.wait, 20)
    closing = asyncio.ensure_future(asyncio.to_thread(threads.close))
    go.set()
    await asyncio.gather(running, closing)
    assert ended == [1]
    with pytest.raises(StoreError, match="closed"):
        await threads.run(int)


def test_closing_waits_for_a_blocking_call_too(threads):
    began, go, ended = threading.Event(), threading.Event(), []

    def work():
        began.set()
        go.wait(MOST_S)
        ended.append(1)

    calling = threading.Thread(target=threads.call, args=(work,))
    calling.start()
    began.wait(MOST_S)
    closing = threading.Thread(target=threads.close)
    closing.start()
    go.set()
    closing.join()
    assert ended == [1]
    calling.join()
    with pytest.raises(StoreError, match="closed"):
        threads.call(int)


ROWS = [{"id": "a", "text": "The ferry leaves at nine."}]


def test_a_gate_ends_its_threads_when_it_is_closed(tmp_path):
    before = request_threads()
    with Millgate.open(tmp_path) as gate:
        gate.add(ROWS)
        assert asyncio.run(gate.acontext("when does the ferry leave?")).chunks
        assert len(request_threads() - before) == 1
    assert request_threads() <= before


def test_a_blocking_call_is_built_in_the_callers_thread():
    seen = []

    def count(text, /):
        seen.append(threading.current_thread())
        return len(text)

    with Millgate.open(":memory:", counter=count) as gate:
        gate.add(ROWS)
        assert gate.context("when does the ferry leave?").chunks
    assert set(seen) == {threading.current_thread()}


class Waiting:
    """A grader that waits until each question is let go."""

    def __init__(self):
        self.asked, self.threads = queue.Queue(), set()

    async def grade(self, query, candidates):
        go = asyncio.Event()
        self.threads.add(threading.current_thread())
        self.asked.put(go)
        await go.wait()
        return [1.0] * len(candidates)


async def test_requests_that_wait_for_a_grader_wait_on_the_callers_loop_and_leave_others_their_place():
    grader = Waiting()
    with Millgate.open(":memory:", grader=grader) as gate:
        gate.add(ROWS)
        asking = [
            asyncio.ensure_future(gate.acontext(f"when does ferry {n} leave?"))
            for n in range(2 * COMPUTING)
        ]
        waiting = [await asyncio.to_thread(grader.asked.get, timeout=MOST_S) for _ in asking]
        assert grader.threads == {threading.current_thread()}
        for go in waiting:
            go.set()
        assert all(context.chunks for context in await asyncio.gather(*asking))


async def test_cancelling_a_request_cancels_what_it_waits_for():
    ended = asyncio.Event()

    class Noting(Waiting):
        async def grade(self, query, candidates):
            try:
                return await super().grade(query, candidates)
            finally:
                ended.set()

    grader = Noting()
    with Millgate.open(":memory:", grader=grader) as gate:
        gate.add(ROWS)
        asking = asyncio.ensure_future(gate.acontext("when does the ferry leave?"))
        await asyncio.to_thread(grader.asked.get, timeout=MOST_S)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await ended.wait()
        again = asyncio.ensure_future(gate.acontext("when does the ferry leave?"))
        (await asyncio.to_thread(grader.asked.get, timeout=MOST_S)).set()
        assert (await again).chunks


async def test_what_is_started_after_a_cancellation_is_cancelled_too():
    calls = LoopCalls.of_running_loop()
    calls.cancel()
    with pytest.raises(UpstreamError, match="cancelled"):
        await asyncio.to_thread(lambda: calls.wait(calls.start(asyncio.sleep(60)), "grader"))


async def test_a_request_that_was_cancelled_ends_before_its_next_stage():
    """Its thread cannot be stopped inside a stage, and nobody waits for what the others would give."""
    entered, leave, graded = threading.Event(), threading.Event(), []

    def count(text, /):
        if asked and not entered.is_set():
            entered.set()
            assert leave.wait(MOST_S)
        return len(text) // 4

    class Noting:
        async def grade(self, query, candidates):
            graded.append(query)
            return [1.0] * len(candidates)

    asked = []
    with Millgate.open(":memory:", counter=count, grader=Noting()) as gate:
        gate.add(ROWS)
        asked.append(asyncio.ensure_future(gate.acontext("Where does the ferry leave?")))
        assert await asyncio.to_thread(entered.wait, 120)
        asked[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked[0]
        leave.set()
        assert (await gate.acontext("when does the ferry leave?")).chunks
    assert graded == ["when does the ferry leave?"]


def test_tenants_take_turns_in_computing():
    slots, order, started = ComputingSlots(1), [], queue.Queue()

    def compute(tenant):
        started.put(tenant)
        with slots.held(tenant):
            order.append(tenant)

    slots.take("first")
    waiting = []
    for tenant in ("greedy", "greedy", "greedy", "modest"):
        waiting.append(threading.Thread(target=compute, args=(tenant,)))
        waiting[-1].start()
        started.get(timeout=MOST_S)
        until(lambda: slots.waiting == len(waiting))
    slots.give_back()
    for thread in waiting:
        thread.join(MOST_S)
    assert order == ["greedy", "modest", "greedy", "greedy"]


class Vectors:
    name, dim = "own/1", 2

    def embed(self, texts):
        return [[1.0, 0.0] for _ in texts]


@pytest.mark.parametrize(
    ("own", "most"),
    [
        ({}, COMPUTING),
        ({"clock": lambda: 1.0}, COMPUTING),
        ({"store": TemporaryStore()}, WAITING),
        ({"embedder": Vectors()}, WAITING),
        ({"counter": len}, WAITING),
    ],
)
def test_parts_of_the_callers_own_may_wait_so_more_requests_compute_at_once(own, most):
    assert computing_at_once(Settings(store=":memory:"), UserComponents(**own)) == most


def test_with_a_remote_embedder_more_requests_compute_at_once(embeddings):
    settings = Settings(store=":memory:", embed={"url": embeddings, "model": "m"})
    assert computing_at_once(settings, UserComponents()) == WAITING


def computing_at_once(settings, own):
    """How many requests may compute at once."""
    parts = wiring.build(settings, own)
    try:
        return parts.threads.computing.count
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
