"""Large bodies share a room: what does not fit is refused, and what is too much at a time waits."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from headgate.errors import BusyError
from headgate.policy import ServicePolicy
from headgate.service.admission import Admission, InFlight
from headgate.service.auth import Auth
from headgate.service.body_room import ORDINARY, SMALL, BodyRoom, Turns, weigh, weigh_work
from headgate.service.limits import CallerLimits
from headgate.thread_work import WorkThreads

LARGEST = 10 * ORDINARY


@asynccontextmanager
async def keep(turns, weight):
    give_back = await turns.wait(weight)
    try:
        yield
    finally:
        give_back()


def test_bodies_of_one_caller_weigh_together_as_much_as_the_largest_may():
    room = BodyRoom(LARGEST)
    with room.share("a") as first, room.share("a") as second:
        first(LARGEST // 2)
        second(LARGEST // 2)
        with pytest.raises(BusyError) as refused:
            second(1)
    assert refused.value.retry_after > 0
    assert "body_bytes" in refused.value.hint


def test_one_caller_leaves_room_for_others_and_all_together_are_bounded():
    room = BodyRoom(LARGEST)
    with room.share("a") as first, room.share("b") as second, room.share("c") as third:
        first(LARGEST)
        second(LARGEST // 2)
        with pytest.raises(BusyError):
            third(ORDINARY + 1)


def test_a_body_of_ordinary_size_fits_whatever_others_hold():
    room = BodyRoom(LARGEST)
    with room.share("a") as first, room.share("a") as second, room.share("b") as third:
        first(LARGEST)
        second(ORDINARY)
        third(ORDINARY)


def test_whoever_is_alone_has_room_for_what_swells():
    with BodyRoom(LARGEST).share("a") as take:
        take(LARGEST)
        take(9 * LARGEST)


def test_what_was_held_is_given_back_where_it_was_refused_too():
    room = BodyRoom(LARGEST)
    with room.share("a") as first:
        first(LARGEST)
        with pytest.raises(BusyError), room.share("a") as second:
            second(LARGEST)
    with room.share("a") as first, room.share("a") as second:
        first(LARGEST // 2)
        second(LARGEST // 2)


def test_a_body_of_many_values_weighs_more_than_its_bytes():
    prose = b'{"text": "%b"}' % (b"Refunds are paid, as a rule, within 14 days. " * 5_000)
    lists = b"[" + b"[]," * 70_000 + b"0]"
    assert weigh(prose) == len(prose)
    assert weigh(lists) > 9 * len(lists)
    assert weigh(lists[:SMALL]) == SMALL


async def test_texts_that_are_kept_are_worked_on_one_at_a_time_where_windows_of_their_size_are_not():
    turns, size = Turns(), ORDINARY // 4
    for path, waits in (("/v1/context", False), ("/v1/documents", True)):
        async with keep(turns, weigh_work(path, size)):
            other = asyncio.ensure_future(_enter(turns, weigh_work(path, size)))
            await asyncio.sleep(0.01)
            assert other.done() != waits
        await other


async def test_bodies_are_worked_on_in_the_order_they_came():
    turns, order = Turns(4 * ORDINARY), []

    async def work(name, weight):
        async with keep(turns, weight):
            order.append(name)
            await asyncio.sleep(0.01)

    heavy = 3 * ORDINARY
    await asyncio.gather(work("a", heavy), work("b", heavy), work("c", heavy), work("d", ORDINARY))
    assert order == ["a", "d", "b", "c"]


async def test_one_that_weighs_more_than_all_may_is_worked_on_alone():
    turns = Turns(4 * ORDINARY)
    async with keep(turns, 99 * ORDINARY):
        waiting = asyncio.ensure_future(_enter(turns, 2 * ORDINARY))
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_one_that_gives_up_while_it_waits_lets_the_next_in():
    turns = Turns(4 * ORDINARY)
    async with keep(turns, 3 * ORDINARY):
        large = asyncio.ensure_future(_enter(turns, 4 * ORDINARY))
        small = asyncio.ensure_future(_enter(turns, ORDINARY + 1))
        await asyncio.sleep(0)
        large.cancel()
        await asyncio.wait([large])
        assert not small.done()  # three and more than one are too much
    await small
    async with asyncio.timeout(5), keep(turns, 4 * ORDINARY):
        pass


async def test_one_that_gives_up_just_when_its_turn_came_gives_it_back():
    turns = Turns(4 * ORDINARY)
    async with keep(turns, 4 * ORDINARY):
        waiting = asyncio.ensure_future(_enter(turns, 4 * ORDINARY))
        await asyncio.sleep(0)
    waiting.cancel()  # let in, and not yet run
    await asyncio.wait([waiting])
    async with asyncio.timeout(5), keep(turns, 4 * ORDINARY):
        pass


async def _enter(turns, weight):
    async with keep(turns, weight):
        pass


async def test_a_request_that_is_cut_off_keeps_its_turn_and_its_room_until_its_thread_ends(
    gate,
):
    begun, may_end, order = threading.Event(), threading.Event(), []

    async def app(scope, receive, send):
        order.append(scope["path"])
        if scope["path"] == "/first":
            await asyncio.to_thread(lambda: begun.set() or may_end.wait(20))

    threads = WorkThreads()
    asyncio.get_running_loop().set_default_executor(threads)
    admission = Admission(
        app,
        policy=ServicePolicy(deadline_s=0.5, body_bytes=8 * ORDINARY),
        auth=Auth(gate.keys, "default"),
        limits=CallerLimits(ServicePolicy()),
        in_flight=InFlight(),
    )
    heavy = b" " * (5 * ORDINARY)
    first = await post(admission, "/first", heavy)
    assert first == 504
    assert begun.is_set()
    assert await post(admission, "/second", heavy) == 429  # there is no room for both
    assert await post(admission, "/third", b" " * (2 * ORDINARY)) == 504  # its turn never came
    assert await post(admission, "/fourth", b"{}") == 500  # at once: this app answers nothing
    may_end.set()
    threads.shutdown()  # which waits for the first one's
    asyncio.get_running_loop().set_default_executor(WorkThreads())
    await asyncio.sleep(0)
    assert await post(admission, "/fifth", heavy) == 500
    assert order == ["/first", "/fourth", "/fifth"]


async def post(app, path, body):
    """The status of a request from this machine; 500 where nothing was answered."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1)}  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"] if sent else 500


async def test_between_large_bodies_the_loop_comes_around_to_everybody_else():
    turns, order = Turns(SMALL), []

    async def read(name):
        leave = await turns.wait(ORDINARY + 1)
        order.append(name)
        leave()

    async def serve():
        for _ in range(8):
            await asyncio.sleep(0)
            order.append("-")

    await asyncio.gather(read("a"), read("b"), serve())
    assert order == ["a", *"--------", "b"]
