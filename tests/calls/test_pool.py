"""Threads that work for requests: whose turn it is, and what is cancelled before it began."""

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest
from tests.waiting import MOST_S

from millgate.calls.pool import TurnQueue, WorkThreads, follow_threads
from millgate.errors import UpstreamError


def test_those_who_wait_take_turns_by_owner():
    queue = TurnQueue()
    for owner, item in (("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)):
        queue.put(owner, item)
    assert [queue.pop() for _ in range(6)] == [1, 4, 5, 2, 6, 3]
    assert not queue


async def test_an_owner_with_much_work_delays_another_by_one_piece_of_it():
    done, leave = [], threading.Event()
    threads = WorkThreads(1)
    try:
        threads.submit(leave.wait, 120)
        with follow_threads("greedy"):
            much = [threads.submit(done.append, n) for n in range(50)]
        with follow_threads("modest"):
            little = threads.submit(done.append, "modest")
        leave.set()
        await asyncio.wrap_future(little)
        await asyncio.gather(*map(asyncio.wrap_future, much))
    finally:
        leave.set()
        threads.shutdown()
    assert done == [0, "modest", *range(1, 50)]


def test_what_only_waits_is_cancelled_and_what_runs_ends():
    leave, entered = threading.Event(), threading.Event()
    threads = WorkThreads(1)

    def hold():
        entered.set()
        return leave.wait(MOST_S)

    running, waiting, dropped = threads.submit(hold), threads.submit(hold), threads.submit(hold)
    assert entered.wait(MOST_S)
    assert dropped.cancel()
    threads.shutdown(wait=False, cancel_futures=True)
    leave.set()
    assert running.result(MOST_S)
    with pytest.raises(CancelledError):
        waiting.result(MOST_S)


def test_all_threads_can_be_started_before_they_are_needed():
    before = threading.active_count()
    threads = WorkThreads(8, thread_name_prefix="early")
    try:
        threads.start_all()
        early = {thread for thread in threading.enumerate() if thread.name.startswith("early")}
        assert len(early) == 8
        assert threads.submit(threading.current_thread).result(MOST_S) in early
    finally:
        threads.shutdown()
    assert threading.active_count() == before


def test_an_error_is_raised_to_the_caller():
    threads = WorkThreads(1)
    try:
        with pytest.raises(ZeroDivisionError):
            threads.submit(lambda: 1 // 0).result(MOST_S)
        assert threads.submit(lambda: 2).result(MOST_S) == 2
    finally:
        threads.shutdown()


async def test_calls_of_one_owner_that_block_leave_threads_to_others():
    leave, threads = threading.Event(), WorkThreads(4)
    try:
        with follow_threads("greedy"):
            blocked = [threads.submit(leave.wait, 120) for _ in range(8)]
        with follow_threads("modest"):
            assert threads.submit(lambda: 2).result(MOST_S) == 2
        assert sum(future.running() for future in blocked) <= 2
        leave.set()
        assert await asyncio.gather(*map(asyncio.wrap_future, blocked)) == [True] * 8
    finally:
        leave.set()
        threads.shutdown()


@pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt])
async def test_what_would_stop_an_event_loop_is_an_error_like_others(error):
    def fail():
        raise error

    threads = WorkThreads(1)
    try:
        with pytest.raises(UpstreamError, match=error.__name__):
            await asyncio.wrap_future(threads.submit(fail))
    finally:
        threads.shutdown()
