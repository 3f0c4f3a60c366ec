"""Internal: which threads still work for a request.

A thread cannot be stopped: a request that is cut off has an answer, while what it asked for is still computed and held
in memory. So the service gives the bytes and the turn of a request back only when its threads have ended too.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Lock
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ThreadWork:
    """What threads do for one request."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._under_way = 1  # the request itself
        self._then: Callable[[], object] = lambda: None

    def add(self, work: "Future[Any]") -> None:
        """Wait for this too."""
        with self._lock:
            self._under_way += 1
        work.add_done_callback(self._end_in_thread)

    def end(self, then: Callable[[], object]) -> None:
        """The request is over: call this when its threads have ended too, which may be now."""
        self._then = then
        if self._end_one():
            then()

    def _end_in_thread(self, _: "Future[Any]") -> None:
        if self._end_one():
            with suppress(RuntimeError):  # the loop is closed, and with it what was lent
                self._loop.call_soon_threadsafe(self._then)

    def _end_one(self) -> bool:
        with self._lock:
            self._under_way -= 1
            return not self._under_way


_CURRENT: ContextVar[ThreadWork | None] = ContextVar("thread work", default=None)


@contextmanager
def follow_threads() -> Iterator[ThreadWork]:
    """The work that threads are given inside, by tasks that are started there too."""
    work = ThreadWork()
    before = _CURRENT.set(work)
    try:
        yield work
    finally:
        _CURRENT.reset(before)


class WorkThreads(ThreadPoolExecutor):
    """Threads whose work is known to the request that it is for."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Do this in a thread."""
        future = super().submit(fn, *args, **kwargs)
        if (work := _CURRENT.get()) is not None:
            work.add(future)
        return future
