"""Internal: which threads still work for a request, and whose turn it is.

A thread cannot be stopped: a request that is cut off has an answer, while what it asked for is still computed and held
in memory. So the service gives the bytes, the turn and the place of a request back when its threads have ended too.

Work that waits for a thread is taken in turns by owner, which is a tenant in the service: one that asks for much waits
for itself, and everybody else waits for little of it.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Any, Generic, ParamSpec, TypeVar

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

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Do this in a thread."""
        work, future = _CURRENT.get(), Future[R]()
        with self._turns:
            super().submit(self._do_next)  # an error says that the threads have ended
            self._waiting.put(work.owner if work else "", (future, partial(fn, *args, **kwargs)))
        if work is not None:
            work.add(future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  (as it is declared)
        """End the threads when their work is done; with `cancel_futures` without what only waits."""
        if cancel_futures:
            with self._turns:
                while self._waiting:
                    self._waiting.pop()[0].cancel()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _do_next(self) -> None:
        with self._turns:
            if not self._waiting:
                return
            future, work = self._waiting.pop()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  (raised to the caller)
            future.set_exception(error)
        else:
            future.set_result(result)
