"""Internal: blocking and async versions of the same method.

`async_version` makes the async version of a method that blocks. It keeps parameters and docstring, so that `help` and
editors show them. `BackgroundLoop` runs an async method for a caller that blocks, and `LoopCalls` what the thread of a
request waits for.

    aadd = async_version(add)
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from millgate.calls.parts import contain, late
from millgate.errors import StoreError, UpstreamError

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

LOGGER = logging.getLogger("millgate")

_ANSWER_S = 1.0  # that a loop has to answer: one that a part blocks does not. Chosen: longer than a busy machine pauses.
_END_S = 5.0  # that closing waits for the loop, as long as it waits for traces (worker.py)
# Seconds beyond the limit of a part after which its event loop counts as blocked. Chosen: the loop itself ends the wait
# at the limit, and a machine that is busy may be late.
BLOCKED_S = 1.0


def async_version(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The async version of a method that blocks: it runs the method in a thread."""

    @wraps(method)
    async def run_in_thread(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        call = partial(method, self, *args, **kwargs)
        return await asyncio.to_thread(contain, f"call of {method.__name__}", call)

    run_in_thread.__name__ = f"a{method.__name__}"
    return run_in_thread


class BackgroundLoop:
    """An event loop in a daemon thread, started at first need. Blocking on it works inside other loops too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run the work on the loop and wait for it; StoreError if the loop is closed before the work ends."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self.start()).result()
        except (RuntimeError, CancelledError) as error:
            if not self._closed:
                raise
            work.close()
            raise StoreError("this Millgate was closed while it was at work") from error

    def start(self) -> asyncio.AbstractEventLoop:
        """The loop, started if it does not run yet."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=serve_loop, args=(self._loop,), name="millgate", daemon=True
                )
                self._thread.start()
            return self._loop

    def replace_blocked(self) -> None:
        """Leave the loop to itself if something blocks it: the next call starts another."""
        with self._lock:
            loop, answered = self._loop, threading.Event()
        if loop is None:
            return
        loop.call_soon_threadsafe(answered.set)
        if answered.wait(_ANSWER_S):
            return
        with self._lock:
            if self._loop is loop:
                self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)

    def stop(self) -> threading.Thread | None:
        """Stop the loop; calls that are waiting get a StoreError. The thread that ends now."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            self._closed = True
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        return thread

    def close(self) -> None:
        """Stop the loop and wait for its end. A loop that something blocks is left behind."""
        if thread := self.stop():
            thread.join(_END_S)
            if thread.is_alive():
                LOGGER.warning("a part of your own blocks its event loop, which is left behind")


def serve_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop in this thread until it is stopped; then cancel what is left on it, and close it."""
    while True:
        try:
            loop.run_forever()
            break
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio lets both end the loop. The task that raised has its error, and the others go on.
            LOGGER.warning("a part of your own raised %r", error)
    with suppress(SystemExit, KeyboardInterrupt):
        loop.run_until_complete(_end_tasks())
    loop.close()


async def _end_tasks() -> None:
    await asyncio.sleep(0)  # what was handed to the loop before it was stopped becomes a task
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=1.0)
    await asyncio.get_running_loop().shutdown_asyncgens()


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
