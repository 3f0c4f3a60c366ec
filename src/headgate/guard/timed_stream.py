"""TimedStream: a model's async stream, waited for in slices of time and closed at any moment."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable

from headgate.errors import UpstreamError
from headgate.guard.policy import GuardPolicy

KeepAlive = Callable[[], object]


class TimedStream:
    """An async iterator that can be waited for in slices of time, and closed at any moment."""

    def __init__(
        self, upstream: AsyncIterator[str], policy: GuardPolicy, keep_alive: KeepAlive | None
    ) -> None:
        self._upstream = upstream
        self._pieces = aiter(upstream)
        self._policy = policy
        self._keep_alive = keep_alive
        self._task: asyncio.Future[str] | None = None

    async def next(self, *, holding: bool) -> str | None:
        """The next piece; None when a slice of time passed while text is held back."""
        if not holding and self._task is None:
            return await self._next_unwatched()
        if self._task is None:
            self._task = asyncio.ensure_future(anext(self._pieces))
        slice_s = min(self._policy.keep_alive_s, self._policy.max_hold_s)
        wait_s = slice_s if holding else self._policy.idle_s
        done, _ = await asyncio.wait({self._task}, timeout=wait_s)
        if done:
            task, self._task = self._task, None
            return task.result()
        if not holding:
            raise self._silence_error()
        await self._call_keep_alive()
        return None

    async def _next_unwatched(self) -> str:
        try:
            async with asyncio.timeout(self._policy.idle_s) as limit:
                return await anext(self._pieces)
        except TimeoutError:
            if limit.expired():
                raise self._silence_error() from None
            raise

    def _silence_error(self) -> UpstreamError:
        return UpstreamError(
            f"the model sent nothing for {self._policy.idle_s:g} s",
            hint="raise idle_s to wait longer",
        )

    async def _call_keep_alive(self) -> None:
        if self._keep_alive is not None:
            answer = self._keep_alive()
            if inspect.isawaitable(answer):
                await answer

    async def close(self) -> None:
        """End the wait and close the upstream, however it can be closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await _close(self._pieces)
        if self._upstream is not self._pieces:
            await _close(self._upstream)


async def _close(thing: object) -> None:
    """Close it by `aclose` or `close`, if it has one."""
    close = getattr(thing, "aclose", None) or getattr(thing, "close", None)
    if close is not None:
        answer = close()
        if inspect.isawaitable(answer):
            await answer
