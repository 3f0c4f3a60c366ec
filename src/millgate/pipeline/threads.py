"""Threads: a request is built in one thread; what it must wait for runs on an event loop.

A blocking call is built in the caller's own thread, an async call in one of these. Stages read thousands of rows and
arrays and hold the interpreter lock, so few of them compute at once (`computing`): with more than two, threads mostly
hand the lock to each other, which takes half as much CPU again. A thread that waits gives its place to another; tenants
take turns. A request whose caller has gone, or whose deadline has passed, ends before its next stage.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from threading import Condition, Event, Lock
from typing import Any, ParamSpec, TypeVar

from millgate.calls.loop import BackgroundLoop
from millgate.calls.parts import contain, late
from millgate.calls.pool import TurnQueue, WorkThreads
from millgate.errors import StoreError, UpstreamError

# Requests that compute at once. One alone would let a long request stop all others.
COMPUTING = 2
# The same if stages wait for a network (PostgreSQL, a remote embedder), when most of them do not compute.
WAITING = 16
# Requests of async callers that are under way at once; threads are started at need. A crowd of 64 agents is what the
# proxy is tested with, and one tenant gets half of the threads.
THREADS = 128
# Seconds that closing waits for requests under way: as long as the service lets them take at its end (service.drain_s).
CLOSE_S = 10.0
# Seconds beyond the limit of a part after which its event loop counts as blocked. Chosen: the loop itself ends the wait
# at the limit, and a machine that is busy may be late.
BLOCKED_S = 1.0

LOGGER = logging.getLogger("millgate")

P = ParamSpec("P")
R = TypeVar("R")


class ComputingSlots:
    """Places for so many requests as compute at once. Those that wait for one take turns by tenant."""

    def __init__(self, count: int = COMPUTING) -> None:
        self.count = count
        self._free = count
        self._waiting: TurnQueue[Event] = TurnQueue()
        self._lock = Lock()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    @contextmanager
    def held(self, tenant: str) -> Iterator[None]:
        """Compute in one of the places."""
        self.take(tenant)
        try:
            yield
        finally:
            self.give_back()

    def take(self, tenant: str) -> None:
        """Wait for a place."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            given = Event()
            self._waiting.put(tenant, given)
        given.wait()

    def give_back(self) -> None:
        """Hand a place on to the next that waits."""
        with self._lock:
            if self._waiting:
                self._waiting.pop().set()
            else:
                self._free += 1


class RequestThreads:
    """Where requests are built. Safe to share between threads and event loops."""

    def __init__(self, computing: int = COMPUTING) -> None:
        self.computing = ComputingSlots(computing)
        self._changed = Condition()
        self._under_way = 0
        self._pool: WorkThreads | None = None
        self._closed = False

    def call(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do the work in this thread; `close` waits for it."""
        with self._counted():
            return work(*args, **kwargs)

    async def run(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do the work in a thread of its own, with the caller's context variables."""
        counted = partial(self.call, work, *args, **kwargs)
        call = partial(copy_context().run, contain, "request", counted)
        with self._changed:
            done = self._open_pool().submit(call)
        return await asyncio.wrap_future(done)

    def start(self) -> None:
        """Start the threads now, so that a crowd that comes at once does not wait for them, nor does its loop."""
        with self._changed:
            self._open_pool().start_all()

    def _open_pool(self) -> WorkThreads:
        self._check_open()
        if self._pool is None:
            self._pool = WorkThreads(THREADS, thread_name_prefix="millgate-request")
        return self._pool

    def close(self) -> None:
        """Wait for what runs, drop what only waits, and end the threads; calls that come later raise StoreError.

        What a part of the user's own holds for long is not waited for.
        """
        with self._changed:
            pool, self._pool, self._closed = self._pool, None, True
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            if not self._changed.wait_for(lambda: not self._under_way, CLOSE_S):
                LOGGER.warning("closed while %d requests were under way", self._under_way)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._changed:
            self._check_open()
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("this Millgate is closed", hint="open it again: Millgate.open(...)")


class LoopCalls:
    """Coroutines that a request's thread starts on an event loop, and waits for.

    A background loop is started with the first one: most requests need none.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | BackgroundLoop) -> None:
        self._loop = loop
        self._started: list[Future[Any]] = []
        self._cancelled = False

    @classmethod
    def of_running_loop(cls) -> "LoopCalls":
        """Calls to the loop that runs in this thread."""
        return cls(asyncio.get_running_loop())

    def start(self, work: Coroutine[Any, Any, R]) -> "Future[R]":
        """Start the work on the loop; `wait` gives its result."""
        loop = self._loop.start() if isinstance(self._loop, BackgroundLoop) else self._loop
        try:
            future = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError as error:
            work.close()
            raise UpstreamError("the event loop is closed") from error
        self._started.append(future)
        if self._cancelled:
            future.cancel()
        return future

    def wait(self, future: "Future[R]", part: str, timeout_s: float | None = None) -> R:
        """What the work returns, once it is done. `timeout_s` is how long the part may take by its own clock: a loop
        that has not ended the work a second later is blocked.
        """
        try:
            return future.result(None if timeout_s is None else timeout_s + BLOCKED_S)
        except CancelledError as error:
            raise UpstreamError("the request was cancelled, or the event loop closed") from error
        except TimeoutError as error:
            if future.done() or timeout_s is None:  # the work raised it
                raise
            future.cancel()
            if isinstance(self._loop, BackgroundLoop):
                self._loop.replace_blocked()
            raise late(part, timeout_s) from error

    def check(self) -> None:
        """UpstreamError if nobody waits for the request any more: so its thread ends before the next stage."""
        if self._cancelled:
            raise UpstreamError("the request was cancelled")

    def cancel(self) -> None:
        """Cancel what is under way and what is started from now on: its caller does not wait any more."""
        self._cancelled = True
        for future in self._started:
            future.cancel()
