"""Internal: deferred writes: one thread writes, in order, what need not be on disk before the answer is given.

Writes of one kind that follow within milliseconds share a transaction: waking a thread and a transaction cost more
than a trace. The queue is bounded. It drops, counts and logs writes that do not fit and writes that failed several
times, and answers say so until a write succeeds. `flush` waits for what is queued when it is called,
and not for what comes after; `close` writes what is queued.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from threading import Condition, Thread
from typing import Any, TypeVar

from millgate.calls.bugs import EXPECTED, describe, report
from millgate.errors import StoreError

LOGGER = logging.getLogger("millgate")
T = TypeVar("T")

MOST = 256  # writes that wait; a trace with its texts takes some 200 kB of memory
TRIES = 3
PAUSE_S = 1.0  # between two tries
# Seconds from one write to the next, unless a caller waits for it. Waking two threads and one transaction a write took
# as much as the rest of a small call. Chosen, not measured: a person who opens a trace does not notice the wait.
GATHER_S = 0.02
TOGETHER = 64  # writes at once


@dataclass(frozen=True, slots=True)
class _Write:
    what: str
    action: Callable[[Sequence[Any]], object]
    item: object = None


class DeferredWrites:
    """A bounded queue of writes and the thread that does them."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._changed = Condition()
        self._queue: deque[_Write] = deque()
        self._left = 0  # writes that have left the queue so far
        self._thread: Thread | None = None
        self._closing = False
        self._resting = False  # whether the thread must be woken
        self._flushing = 0
        self._problem = ""
        self.dropped = 0

    def put(self, what: str, action: Callable[[], object]) -> str:
        """Queue a write. Returns what is wrong: with this one, or with those before it; "" when nothing is."""
        return self.put_item(what, lambda _: action(), None)

    def put_item(self, what: str, action: Callable[[Sequence[T]], object], item: T) -> str:
        """The same for an action on items, which may get those that are queued next to each other at once."""
        with self._changed:
            if self._closing or len(self._queue) >= self._most:
                self.dropped += 1
                reason = f" ({self._problem})" if self._problem else ""
                return f"not stored: {len(self._queue)} writes are waiting{reason}"
            self._queue.append(_Write(what, action, item))
            self._start()
            if self._resting or len(self._queue) == self._most // 2:
                self._resting = False
                self._changed.notify_all()
            return self._problem

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all that is queued now is written or dropped; False when that takes too long."""
        with self._changed:
            last = self._left + len(self._queue)
            self._start()
            self._flushing += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: self._left >= last, timeout=timeout_s)
            finally:
                self._flushing -= 1

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is queued, as far as the time allows, and stop; what is left is dropped and logged."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        with self._changed:
            left = len(self._queue)
            self._queue.clear()
            self._left += left
            self.dropped += left
            self._changed.notify_all()
        if left:
            LOGGER.warning("%d writes were waiting at the end and are lost", left)

    def _start(self) -> None:
        if self._thread is None and not self._closing:
            self._thread = Thread(target=self._run, name="millgate-writes", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        last = 0.0
        while True:
            with self._changed:
                self._resting = not self._queue
                self._changed.wait_for(lambda: self._queue or self._closing)
                self._resting = False
                self._changed.wait_for(
                    lambda: self._closing or self._flushing or len(self._queue) >= self._most // 2,
                    max(0.0, last + GATHER_S - time.monotonic()),
                )
                gathered = len(self._queue)
            if not gathered:
                return
            while gathered > 0 and (found := self._next()):
                self._write_all(found)
                gathered -= len(found)
            last = time.monotonic()

    def _next(self) -> list[_Write]:
        """The first of the queue, with those behind it that its action takes too; they stay there until done."""
        with self._changed:
            same = takewhile(lambda write: write.action == self._queue[0].action, self._queue)
            return list(islice(same, TOGETHER))

    def _write_all(self, writes: list[_Write]) -> None:
        if len(writes) > 1:
            with suppress(BaseException):  # then each alone, which tells what is wrong with it
                writes[0].action([write.item for write in writes])
                self._problem = ""
                self._finish(len(writes))
                return
        for write in writes:
            if self._queue:  # else they were given up at the end
                self._write(write)

    def _write(self, write: _Write) -> None:
        """Try it a few times. What went wrong with it or those before it is forgotten when it is written."""
        problem, tries, may_be_over = "", 0, True
        while may_be_over and tries < TRIES and not (tries and self._wait_for_close()):
            problem, may_be_over, tries = "", False, tries + 1
            try:
                write.action([write.item])
            except EXPECTED as error:
                problem, may_be_over = describe(error), isinstance(error, StoreError)
            except Exception as error:  # noqa: BLE001  a bug: logged, and the thread goes on
                report(error, write.what)
                problem = f"a bug ({type(error).__name__})"
            except BaseException as error:  # noqa: BLE001  a part of the user's own exits, which may not end this thread
                problem = describe(error)
            self._problem = problem and f"not stored: {problem}"
        if problem:
            LOGGER.warning("%s is lost: not stored: %s", write.what, problem)
        self._finish(1, dropped=bool(problem))

    def _wait_for_close(self) -> bool:
        """Pause before the next try; True if the queue is closed by then."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing, PAUSE_S)

    def _finish(self, count: int, *, dropped: bool = False) -> None:
        with self._changed:
            for _ in range(min(count, len(self._queue))):
                self._queue.popleft()
                self._left += 1
            self.dropped += dropped
            self._changed.notify_all()
