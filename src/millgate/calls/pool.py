"""Internal: the pool in which requests are built: which threads work for whom, whose turn it is, and how many compute.

A blocking call is built in the caller's own thread, an async call in one of these. Stages read thousands of rows and
arrays and hold the interpreter lock, so few of them compute at once (`ComputingSlots`): with more than two, threads
mostly hand the lock to each other, which takes half as much CPU again. A thread that waits gives its place to another.

A thread cannot be stopped: a request that is cut off has an answer, while what it asked for is still computed and held
in memory. So the service gives the bytes, the turn and the place of a request back when its threads have ended too.

Work that waits for a thread is taken in turns by owner, which is a tenant in the service: one that asks for much waits
for itself, and everybody else waits for little of it. Nor may one owner hold more than half of the threads: calls that
block, as on a store that another process has locked, would stop everybody.
"""

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Condition, Event, Lock
from typing import Any, Generic, ParamSpec, TypeVar

from millgate.calls.parts import contain, run_into
from millgate.errors import StoreError

# Requests that compute at once. One alone would let a long request stop all others.
COMPUTING = 2
# The same if stages wait for a network (PostgreSQL, a remote embedder), when most of them do not compute.
WAITING = 16
# Requests of async callers that are under way at once; threads are started at need. A crowd of 64 agents is what the
# proxy is tested with, and one tenant gets half of the threads.
THREADS = 128
# Seconds that closing waits for requests under way: as long as the service lets them take at its end (service.drain_s).
CLOSE_S = 10.0
LOGGER = logging.getLogger("millgate")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class TurnQueue(Generic[T]):
    """What waits, in turns: the first of one owner, then the first of the next. Its user holds a lock."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, deque[T]] = OrderedDict()

    def put(self, owner: str, item: T) -> None:
        """Let an item wait behind the others of its owner."""
        self._rows.setdefault(owner, deque()).append(item)

    def pop(self) -> T:
        """The next item. The other items of its owner wait for another round."""
        owner, row = self._rows.popitem(last=False)
        item = row.popleft()
        if row:
            self._rows[owner] = row
        return item

    def pop_of(self, may: Callable[[str], bool]) -> tuple[str, T] | None:
        """The next item whose owner may have a turn, with its owner; None if there is none."""
        for owner in self._rows:
            if may(owner):
                self._rows.move_to_end(owner, last=False)
                return owner, self.pop()
        return None

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


class ThreadWork:
    """What threads do for one request of an owner."""

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
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
def follow_threads(owner: str = "") -> Iterator[ThreadWork]:
    """The work that threads are given inside, by tasks that are started there too."""
    work = ThreadWork(owner)
    before = _CURRENT.set(work)
    try:
        yield work
    finally:
        _CURRENT.reset(before)


class WorkThreads(ThreadPoolExecutor):
    """Threads whose work is known to the request that it is for, and taken in turns by its owner."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "") -> None:
        super().__init__(max_workers, thread_name_prefix)
        self._waiting: TurnQueue[tuple[Future[Any], Callable[[], Any]]] = TurnQueue()
        self._turns = Lock()
        self._held: Counter[str] = Counter()  # threads by owner
        self._most = max(1, self._max_workers // 2)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Do this in a thread."""
        work, future = _CURRENT.get(), Future[R]()
        with self._turns:
            super().submit(self._do_next)  # an error says that the threads have ended
            self._waiting.put(work.owner if work else "", (future, partial(fn, *args, **kwargs)))
        if work is not None:
            work.add(future)
        return future

    def start_all(self) -> None:
        """Start every thread now: while others compute, each start takes some 50 ms of its caller, as of a loop."""
        go = Event()
        for _ in range(self._max_workers):
            super().submit(go.wait)
        go.set()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  (as it is declared)
        """End the threads when their work is done; with `cancel_futures` without what only waits."""
        if cancel_futures:
            with self._turns:
                while self._waiting:
                    self._waiting.pop()[0].cancel()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _do_next(self) -> None:
        """Do what waits, as long as somebody may have a turn: what an owner with too many threads asked for is done by
        the thread that ends for it.
        """
        while True:
            with self._turns:
                found = self._waiting.pop_of(self._may_have_thread)
                if found is None:
                    return
                owner, (future, work) = found
                self._held[owner] += 1
            try:
                run_into(future, partial(contain, "call", work))
            finally:
                with self._turns:
                    self._held[owner] -= 1
                    if not self._held[owner]:
                        del self._held[owner]

    def _may_have_thread(self, owner: str) -> bool:
        return not owner or self._held[owner] < self._most


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
        with self._changed:
            self._check_open()
            self._under_way += 1
        try:
            return work(*args, **kwargs)
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

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

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("this Millgate is closed", hint="open it again: Millgate.open(...)")
