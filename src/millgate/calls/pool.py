"""Internal: which threads still work for a request, and whose turn it is.

A thread cannot be stopped: a request that is cut off has an answer, while what it asked for is still computed and held
in memory. So the service gives the bytes, the turn and the place of a request back when its threads have ended too.

Work that waits for a thread is taken in turns by owner, which is a tenant in the service: one that asks for much waits
for itself, and everybody else waits for little of it. Nor may one owner hold more than half of the threads: calls that
block, as on a store that another process has locked, would stop everybody.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Event, Lock
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
                _run_into(future, work)
            finally:
                with self._turns:
                    self._held[owner] -= 1
                    if not self._held[owner]:
                        del self._held[owner]

    def _may_have_thread(self, owner: str) -> bool:
        return not owner or self._held[owner] < self._most


def _run_into(future: "Future[Any]", work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            result = work()
        except (StopIteration, SystemExit, KeyboardInterrupt) as error:
            # the first would let an event loop wait for ever, and the others would end it
            future.set_exception(RuntimeError(f"it raised {error!r}"))
        except BaseException as error:  # noqa: BLE001  (raised to the caller)
            future.set_exception(error)
        else:
            future.set_result(result)
