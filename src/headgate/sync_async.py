"""Internal: blocking and async versions of the same method.

`async_version` makes the async version of a method that blocks. It keeps parameters and docstring, so that `help` and
editors show them. `BackgroundLoop` runs an async method for a caller that blocks.

    aadd = async_version(add)
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from headgate.errors import StoreError

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def async_version(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The async version of a method that blocks: it runs the method in a thread."""

    @wraps(method)
    async def run_in_thread(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self, *args, **kwargs)

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
            raise StoreError("this Headgate was closed while it was at work") from error

    def start(self) -> asyncio.AbstractEventLoop:
        """The loop, started if it does not run yet."""
        with self._lock:
            if self._loop is None:
                try:
                    self._loop = asyncio.new_event_loop()
                except OSError as error:
                    raise StoreError(
                        f"no event loop can be started: {error}",
                        hint="the process has too many open files",
                    ) from error
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="headgate", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Stop the loop and its threads; calls that are waiting get a StoreError."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            self._closed = True
        if loop is None or thread is None:
            return
        # on the loop itself: a caller inside another running loop could not run this one
        asyncio.run_coroutine_threadsafe(_shut_down(loop), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _shut_down(loop: asyncio.AbstractEventLoop) -> None:
    await loop.shutdown_default_executor()
    others = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()
