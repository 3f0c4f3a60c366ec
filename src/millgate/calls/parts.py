"""Internal: calling parts of the user's own, so that none of them can end the gate or hold it for good.

A part is what the user hands in (protocols/__init__.py), or a plug-in. Whatever a part raises is that part's failure,
`sys.exit()` too. One that waits has a limit of time:

    part                   runs                                   at most
    embedder               in a thread of its own, `ThreadCalls`  embed.timeout_s for 32 texts
    grader, search         on an event loop, `await_part`         grade.deadline_s
    retriever              in a thread of its own, `ThreadCalls`  grade.deadline_s
    memory provider        in a thread or on a loop of its own    recall.deadline_s
    counter, clock         in the thread that asks, `or_ours`     no limit: they are asked all the time
    store                  in the thread that asks, `contain`     no limit

A grader, search or memory provider that fails several times in a row rests for a while (`Rest`). For a counter and a
clock there are ours, which answer when they fail. What needs another part goes on without it.
"""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from inspect import isawaitable
from types import CodeType
from typing import Any, ParamSpec, TypeVar

from millgate.calls.bugs import EXPECTED, describe
from millgate.errors import ConfigError, MillgateError, StoreError, UpstreamError, UpstreamTimeout

FAILURES = 3  # in a row, after which a part rests
REST_S = 30.0  # how long it rests

P = ParamSpec("P")
R = TypeVar("R")

LOGGER = logging.getLogger("millgate")

_EXITS = (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
"""What ends a thread or a loop if nobody catches it. Frameworks have more of that kind, which are left alone."""


def is_failure(error: BaseException) -> bool:
    """Whether an error is the failure of what was called, and no wish to end this program.

    Ctrl-C, and the exit that a signal handler asks for, reach the main thread alone.
    """
    if isinstance(error, Exception):
        return True
    if not isinstance(error, _EXITS):
        return False
    if threading.current_thread() is not threading.main_thread():
        return True
    return not isinstance(error, KeyboardInterrupt) and not _came_from_signal(error)


def _came_from_signal(error: BaseException) -> bool:
    """Whether a signal handler of the program raised it."""
    handlers = {_code_of(signal.getsignal(one)) for one in signal.valid_signals()}
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in handlers:
            return True
        step = step.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__code__", None)


def failure_of(part: str, error: BaseException) -> UpstreamError:
    """What a part raised, as an error that can be handled like any other."""
    return UpstreamError(f"the {part} failed: {describe(error)}")


def contain(part: str, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a part in this thread. An exit that it raises becomes an UpstreamError; so does StopIteration, for which a
    future of asyncio would wait for ever.
    """
    try:
        return call(*args, **kwargs)
    except StopIteration as error:
        raise failure_of(part, error) from error
    except _EXITS as error:
        if not is_failure(error):
            raise
        raise failure_of(part, error) from error


def or_ours(part: str, own: Callable[P, R], ours: Callable[P, R]) -> Callable[P, R]:
    """A part, and ours in each call in which it fails; the log says so once."""
    is_told = False

    @wraps(own)
    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal is_told
        try:
            return contain(part, own, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is not ours)
            if not is_told:
                is_told = True
                LOGGER.warning("your own %s failed, and ours answers: %s", part, describe(error))
            return ours(*args, **kwargs)

    return ask


async def await_part(
    part: str,
    timeout_s: float | None,
    call: Callable[P, Awaitable[R]],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Await a part on this event loop: UpstreamTimeout if it takes longer, UpstreamError for an exit that it raises.

    One with a limit of time is the user's own: whatever else it raises is no bug of ours, and an UpstreamError too.
    """
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            return await _call_async(part, call, *args, **kwargs)
    except TimeoutError as error:
        if limit.expired() and timeout_s is not None:
            raise late(part, timeout_s) from error
        raise
    except _EXITS as error:
        task = asyncio.current_task()
        if (task is not None and task.cancelling()) or not is_failure(error):
            raise
        raise failure_of(part, error) from error
    except Exception as error:
        if timeout_s is None or isinstance(error, EXPECTED):  # without a limit it is one of ours
            raise
        raise failure_of(part, error) from error


async def _call_async(
    part: str, call: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    answer: object = call(*args, **kwargs)
    if not isawaitable(answer):
        name = getattr(call, "__name__", "it")
        hint = f"write it as: async def {name}(...)"
        raise ConfigError(f"the {part} does not await", hint=hint)
    given: R = await answer
    return given


def late(part: str, timeout_s: float) -> UpstreamTimeout:
    """The error for a part that took too long."""
    return UpstreamTimeout(f"the {part} gave no answer in {timeout_s:g} s")


def start_thread(
    name: str, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> "Future[R]":
    """Run work in a daemon thread, which keeps no process from ending; its result or error goes into the future."""
    future: Future[R] = Future()
    call = partial(copy_context().run, work, *args, **kwargs)
    threading.Thread(
        target=run_into, args=(future, call), name=f"millgate-{name}", daemon=True
    ).start()
    return future


def run_into(future: "Future[R]", work: Callable[[], R]) -> None:
    """Do the work, unless nobody waits for it any more; its result or error goes into the future."""
    if future.set_running_or_notify_cancel():
        try:
            result = work()
        except StopIteration as error:
            # no future of asyncio takes this error: a caller would wait for it until the deadline
            future.set_exception(RuntimeError(f"it raised {error!r}"))
        except BaseException as error:  # noqa: BLE001 - it is handed on to the caller that waits for the future
            future.set_exception(error)
        else:
            future.set_result(result)


class Rest:
    """How long a part is not asked: after some failures in a row for a while, and again after each that follows."""

    def __init__(
        self,
        failures: int = FAILURES,
        rest_s: float = REST_S,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failures_in_a_row = 0
        self._most, self._rest_s, self._clock = failures, rest_s, clock
        self._until = 0.0
        self._last_error = ""

    @property
    def reason(self) -> str:
        """Why the part is not to be asked now, "" if it may be."""
        if self._clock() >= self._until:
            return ""
        return f"resting after {self.failures_in_a_row} failures: {self._last_error}"

    def note(self, error: str) -> None:
        """Note how a call ended; an empty `error` means that it was answered."""
        self.failures_in_a_row = self.failures_in_a_row + 1 if error else 0
        self._last_error = error
        rests = self.failures_in_a_row >= self._most
        self._until = self._clock() + self._rest_s if rests else 0.0


class ThreadCalls:
    """Calls of one part that blocks, each in a thread of its own. While one is late no other is begun."""

    def __init__(self, part: str) -> None:
        self._part = part
        self._late: set[Future[Any]] = set()
        self._closed: Future[None] = Future()

    def call(
        self, timeout_s: float, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """What the work returns; UpstreamTimeout if it takes too long, UpstreamError if it fails."""
        if self._late:
            raise UpstreamTimeout(f"the {self._part} has not come back from an earlier call")
        future = start_thread(self._part, work, *args, **kwargs)
        awaited: list[Future[Any]] = [future, self._closed]
        wait(awaited, timeout_s, FIRST_COMPLETED)
        if not future.done():
            self._late.add(future)
            future.add_done_callback(self._late.discard)
            if self._closed.done():
                raise StoreError("this Millgate was closed while it was at work")
            raise late(self._part, timeout_s)
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, MillgateError | OSError):
            raise error
        raise failure_of(self._part, error) from error

    def close(self) -> None:
        """Wait for nothing any more: calls that are under way raise StoreError."""
        with suppress(InvalidStateError):  # it is closed already
            self._closed.set_result(None)
