"""Threads for stages: a few for all requests of one gate, since computing stages share one interpreter lock.

Stages read thousands of rows and arrays, and each read gives the lock away for a moment. With more than two threads
they mostly hand it to each other, which takes half as much CPU again. Where stages wait for a network, more
threads are at work while the others wait.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import ParamSpec, Protocol, TypeVar

from headgate.errors import StoreError
from headgate.thread_work import WorkThreads

COMPUTING = 2  # one long request must not stop all others
WAITING = 16

P = ParamSpec("P")
R = TypeVar("R")


class InThread(Protocol):
    """Runs work in a thread, as `asyncio.to_thread` does."""

    def __call__(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """What the work returns."""


class StageThreads:
    """At most so many threads, started at need. Safe to share between event loops."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._pool: WorkThreads | None = None
        self._closed = False

    async def run(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """What the work returns; it runs in one of the threads, with the caller's context variables."""
        call = partial(copy_context().run, work, *args, **kwargs)
        with self._lock:
            if self._closed:
                raise StoreError(
                    "this Headgate is closed", hint="open it again: Headgate.open(...)"
                )
            if self._pool is None:
                self._pool = WorkThreads(self._most, thread_name_prefix="headgate-stage")
            done = self._pool.submit(call)
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Wait for what runs, drop what only waits, and end the threads; calls that come later raise StoreError."""
        with self._lock:
            pool, self._pool, self._closed = self._pool, None, True
        if pool is not None:
            pool.shutdown(cancel_futures=True)
