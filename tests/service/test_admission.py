"""Admission: bodies and answers share one byte budget, large bodies are worked on in turn, and ordinary ones pass."""

import asyncio
import gc
import threading
import tracemalloc
from contextlib import asynccontextmanager

import pytest
from tests.service.clients import connected
from tests.waiting import MOST_S

from millgate.calls.pool import WorkThreads
from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.edge.admission import KEEPING, PIECE, Admission, InFlight
from millgate.service.edge.auth import Auth
from millgate.service.edge.body import weigh
from millgate.service.edge.byte_budget import ORDINARY, ByteBudget, machine_memory
from millgate.service.edge.limits import CallerLimits
from millgate.service.edge.reply import Reply
from millgate.settings import Settings
from millgate.types.policy import ServicePolicy

LARGE = 4 * ORDINARY
CHAT = "/v1/chat/completions"


class Caller:
    """One request from this machine: the parts of its body, and what it is answered.

    One that `stalls` never sends its last part; one that is `slow` reads the head of its answer, and the rest when it
    may.
    """

    def __init__(self, path, *parts, announced=True, stalls=False, slow=False):
        length = [(b"content-length", b"%d" % sum(map(len, parts)))] if announced else []
        self.scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"localhost"), *length], "client": ("127.0.0.1", 1)}  # fmt: skip
        self._parts, self._stalls = list(parts or [b""]), stalls
        self.sent, self.has_head, self.may_read = [], asyncio.Event(), asyncio.Event()
        if not slow:
            self.may_read.set()

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def headers(self):
        return dict(self.sent[0]["headers"])

    async def receive(self):
        await asyncio.sleep(0)  # others send their parts meanwhile
        if len(self._parts) <= self._stalls:
            await asyncio.Event().wait()  # it sends no more, and stays
        return {"type": "http.request", "body": self._parts.pop(0), "more_body": bool(self._parts)}

    async def send(self, message):
        if self.has_head.is_set():
            await self.may_read.wait()
        self.sent.append(message)
        self.has_head.set()

    async def ask(self, app):
        """Send the request; the status of the answer."""
        await app(self.scope, self.receive, self.send)
        return self.status


@pytest.fixture
def admit(gate):
    """Makes an app that admits requests under a budget."""

    def make(app, budget, **policy):
        settings = ServicePolicy(**policy)
        return Admission(
            app,
            policy=settings,
            auth=Auth(gate.keys, "default"),
            limits=CallerLimits(settings),
            budget=budget,
            in_flight=InFlight(),
        )

    return make


async def answer(send, body=b""):
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


class HeldApp:
    """An app whose requests each stay until they are let go, and which of them it has begun."""

    def __init__(self):
        self.begun, self._events = [], {}
        self._changed = asyncio.Condition()

    async def __call__(self, scope, receive, send):
        name = scope["path"]
        async with self._changed:
            self.begun.append(name)
            self._changed.notify_all()
        await self.event(name).wait()
        await answer(send)

    def event(self, name):
        return self._events.setdefault(name, asyncio.Event())

    async def until_begun(self, name, times=1):
        async with asyncio.timeout(MOST_S), self._changed:
            await self._changed.wait_for(lambda: self.begun.count(name) >= times)


@asynccontextmanager
async def asking(admission, *callers):
    """The requests under way."""
    tasks = [asyncio.ensure_future(caller.ask(admission)) for caller in callers]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("announced", [True, False])
async def test_twenty_uploads_at_once_come_through_a_small_budget_one_after_another(
    admit, announced
):
    budget, most = ByteBudget(2 * LARGE, wait_s=30), []

    async def app(scope, receive, send):
        most.append(budget.held)
        assert len((await receive())["body"]) == LARGE
        await answer(send)

    admission = admit(app, budget, body_bytes=LARGE)
    parts = [b" " * (ORDINARY // 2)] * 8
    callers = [Caller("/v1/context", *parts, announced=announced) for _ in range(20)]
    async with asyncio.timeout(MOST_S):
        assert await asyncio.gather(*(one.ask(admission) for one in callers)) == [200] * 20
    # what is ordinary in size comes in beside the two that fit
    assert max(most) <= 2 * LARGE + 18 * ORDINARY
    assert budget.held == 0


async def test_uploads_that_stop_half_way_make_others_come_again_and_nobody_hangs(admit):
    budget = ByteBudget(LARGE, wait_s=0.05)
    admission = admit(HeldApp(), budget)
    parts = [b" " * ORDINARY] * 4
    callers = [Caller("/v1/context", *parts, stalls=True) for _ in range(20)]
    async with asyncio.timeout(MOST_S), asking(admission, *callers) as tasks:
        ends = [await task for task in asyncio.as_completed(tasks[1:])]
        assert ends == [429] * 19
        assert budget.held == LARGE
        assert not tasks[0].done()
    refused = callers[-1]
    assert int(refused.headers[b"retry-after"]) >= 1
    assert b"service.memory_bytes" in refused.sent[1]["body"]
    assert budget.held == 0


async def test_a_body_of_ordinary_size_neither_waits_nor_is_refused_because_of_others(admit):
    budget, app = ByteBudget(LARGE, wait_s=30), HeldApp()
    admission = admit(app, budget)
    app.event("/ordinary").set()
    large, waiting = Caller("/large", b" " * LARGE), Caller("/waiting", b" " * LARGE)
    async with asking(admission, large, waiting):
        await app.until_begun("/large")
        for _ in range(5):
            assert await Caller("/ordinary", b" " * ORDINARY).ask(admission) == 200
        assert "/waiting" not in app.begun


async def test_large_bodies_are_worked_on_one_at_a_time_in_the_order_they_came(admit):
    app = HeldApp()
    admission = admit(app, ByteBudget(99 * LARGE))
    names = ["/a", "/b", "/c"]
    async with asking(admission, *(Caller(name, b" " * LARGE) for name in names)) as tasks:
        for n, name in enumerate(names):
            await app.until_begun(name)
            assert app.begun == names[: n + 1]
            app.event(name).set()
            assert await tasks[n] == 200


async def test_a_text_that_is_kept_is_large_before_a_window_of_its_size_is(admit):
    size = ORDINARY // KEEPING + 1
    for path, waits in (("/v1/context", False), ("/v1/documents", True)):
        app = HeldApp()
        admission = admit(app, ByteBudget())
        async with asking(admission, Caller(path, b" " * size)) as (first,):
            await app.until_begun(path)
            async with asking(admission, Caller(path, b" " * size)) as (second,):
                app.event("/other").set()
                assert await Caller("/other", *[b" "] * 9).ask(admission) == 200
                assert (app.begun.count(path) == 1) == waits
                app.event(path).set()
                assert [await first, await second] == [200, 200]


async def test_who_waits_half_the_deadline_for_its_turn_is_to_come_again(admit):
    app = HeldApp()
    admission = admit(app, ByteBudget(99 * LARGE), deadline_s=0.2)
    first = Caller("/first", b" " * LARGE)
    async with asking(admission, first):
        await app.until_begun("/first")
        first.scope["millgate"].deadline.reschedule(None)
        second = Caller("/second", b" " * LARGE)
        assert await second.ask(admission) == 429
    assert int(second.headers[b"retry-after"]) >= 1
    assert b"service.deadline_s" in second.sent[1]["body"]


async def test_model_calls_hold_their_bodies_while_they_last_and_wait_for_no_turn(admit):
    budget, app = ByteBudget(2 * LARGE, wait_s=0), HeldApp()
    admission = admit(app, budget)
    async with asking(admission, *(Caller(CHAT, b" " * LARGE) for _ in range(2))) as tasks:
        await app.until_begun(CHAT, 2)
        assert budget.held == 2 * LARGE
        assert await Caller(CHAT, b" " * LARGE).ask(admission) == 429
        app.event(CHAT).set()
        assert await asyncio.gather(*tasks) == [200, 200]
        assert budget.held == 0
    assert await Caller(CHAT, b" " * LARGE).ask(admission) == 200


async def test_values_are_held_as_what_they_become(admit):
    lists = b"[" + b"[]," * 70_000 + b"0]"
    budget, app = ByteBudget(), HeldApp()
    async with asking(admit(app, budget), Caller(CHAT, lists)):
        await app.until_begun(CHAT)
        assert budget.held == pytest.approx(weigh(lists), rel=0.1)  # it draws a sample
        assert budget.held > 9 * len(lists)


async def test_a_request_that_is_cut_off_keeps_its_share_and_its_turn_until_its_thread_ends(admit):
    begun, may_end, order = threading.Event(), threading.Event(), []
    loop, threads = asyncio.get_running_loop(), WorkThreads()
    loop.set_default_executor(threads)

    async def app(scope, receive, send):
        order.append(scope["path"])
        if scope["path"] == "/first":
            work = asyncio.to_thread(lambda: begun.set() or may_end.wait(MOST_S))
            cutting = asyncio.create_task(cut_off(scope["millgate"].deadline))
            await asyncio.gather(work, cutting)
        await answer(send)

    async def cut_off(deadline):
        await asyncio.to_thread(begun.wait, 60)
        deadline.reschedule(loop.time())

    budget = ByteBudget(LARGE + 3 * ORDINARY, wait_s=0)
    admission = admit(app, budget)
    assert await Caller("/first", b" " * LARGE).ask(admission) == 504
    assert budget.held == LARGE
    assert (
        await Caller("/second", b" " * LARGE).ask(admission) == 429
    )  # the budget does not hold both
    async with asking(admission, Caller("/third", b" " * (2 * ORDINARY))) as (third,):
        assert await Caller("/fourth", *[b" "] * 9).ask(admission) == 200
        assert order == ["/first", "/fourth"]  # the third waits for its turn
        may_end.set()
        assert await third == 200
    assert budget.held == 0


async def test_a_large_answer_is_held_until_it_is_read_and_nobody_is_cut_off_for_reading_slowly(
    admit,
):
    budget, whole = ByteBudget(), b"0123456789abcdef" * (LARGE // 16)

    async def app(scope, receive, send):
        await answer(send, whole)

    admission = admit(app, budget)
    slow = Caller("/slow", b" " * LARGE, slow=True)
    async with asking(admission, slow) as (task,):
        await slow.has_head.wait()
        # its work is done, so that others need not wait until it has read
        assert await Caller("/other", b" " * LARGE).ask(admission) == 200
        assert slow.scope["millgate"].deadline.when() is None
        assert budget.held == LARGE, "the answer, and no longer the body"
        slow.may_read.set()
        assert await task == 200
    parts = [message["body"] for message in slow.sent[1:]]
    assert max(map(len, parts)) <= PIECE
    assert b"".join(parts) == whole
    assert [message["more_body"] for message in slow.sent[1:]] == [True] * (len(parts) - 1) + [False]  # fmt: skip
    assert budget.held == 0


async def test_large_answers_that_nobody_reads_make_others_come_again(admit):
    async def app(scope, receive, send):
        await answer(send, b"x" * (LARGE if scope["path"] == "/large" else ORDINARY))

    budget = ByteBudget(2 * LARGE, wait_s=0.01)
    admission = admit(app, budget)
    slow = [Caller("/large", b" " * ORDINARY, slow=True) for _ in range(2)]
    async with asking(admission, *slow) as tasks:
        for one in slow:
            await one.has_head.wait()
        refused = Caller("/large", b" ")
        assert await refused.ask(admission) == 429
        assert b"service.memory_bytes" in b"".join(part["body"] for part in refused.sent[1:])
        assert await Caller("/ordinary", b" " * ORDINARY).ask(admission) == 200
        for one in slow:
            one.may_read.set()
        assert await asyncio.gather(*tasks) == [200, 200]
    assert await Caller("/large", b" ").ask(admission) == 200


def test_the_budget_of_a_process_is_its_part_of_the_setting_or_of_the_machine():
    for service, total in (
        ({"memory_bytes": 4_000, "workers": 4}, 1_000),
        ({"workers": 2}, machine_memory() // 4 // 2),
        ({"memory_bytes": 1, "workers": 4}, 1),
    ):
        with Millgate.open(settings=Settings(store=":memory:", service=service)) as gate:
            assert create(gate).state.service.budget.total == total


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/context", b'{"query": "q", "other": "%b"}'),
        ("/v1/context", b'{"query": "%b'),
        ("/v1/context", b'{"query": "%b"}'),
        (CHAT, b'{"messages": [{"role": "user", "content": "%b"}]}'),
    ],
)
async def test_a_body_that_was_refused_need_not_wait_for_the_garbage_collector(gate, path, body):
    async with connected(create(gate)) as client:
        json = {"content-type": "application/json"}
        first = await client.post(path, content=body % b"x", headers=json)  # imports what it needs
        assert first.status_code in (200, 400, 422)
        content = body % (b"x" * LARGE)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            refused = await client.post(path, content=content, headers=json)
            assert refused.status_code in (400, 413, 422)
            async with asyncio.timeout(MOST_S):  # the thread that read it may have it for a moment
                while tracemalloc.get_traced_memory()[0] > LARGE // 4:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        finally:
            tracemalloc.stop()
            gc.enable()


@pytest.mark.parametrize("theirs", [[], [(b"X-Request-Id", b"upstream")]])
async def test_an_answer_has_one_request_id_which_is_the_upstreams_if_it_gave_one(admit, theirs):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": theirs})
        await send({"type": "http.response.body"})

    caller = Caller(CHAT)
    await caller.ask(admit(app, ByteBudget(LARGE)))
    found = [value for name, value in caller.sent[0]["headers"] if name.lower() == b"x-request-id"]
    assert len(found) == 1
    assert not theirs or found == [b"upstream"]


@pytest.mark.parametrize(("kind", "told"), [(b"text/event-stream", True), (b"text/plain", False)])
async def test_a_proxy_in_between_is_told_to_pass_a_stream_on_at_once(kind, told):
    caller = Caller(CHAT)
    reply = Reply(caller.send)
    reply.head(200, [(b"Content-Type", kind)])
    await reply.end(b"data: 1\n\n")
    assert (caller.headers.get(b"x-accel-buffering") == b"no") is told
