"""Revocation: a request that takes long is ended soon after its key was revoked.

A stream may go on for many minutes. Every few seconds the caller is looked up again; where the key is no longer valid,
the request's deadline is now. Short requests pay for a timer alone.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Scope

from headgate.errors import AccessError, HeadgateError
from headgate.service.auth import Auth
from headgate.service.request_state import RequestState

EVERY_S = 5.0


@contextmanager
def end_when_revoked(auth: Auth, scope: Scope, state: RequestState) -> Iterator[None]:
    """Look the caller of a request up again and again while it is served; cut it off once the key is not valid."""
    if state.caller is None or not state.caller.key:
        yield
        return
    watch = _Watch(auth, scope, state)
    watch.wait()
    try:
        yield
    finally:
        watch.stop()


class _Watch:
    """A timer that looks the caller up and sets itself again."""

    def __init__(self, auth: Auth, scope: Scope, state: RequestState) -> None:
        self._auth, self._scope, self._state = auth, scope, state
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.Task[None] | None = None

    def wait(self) -> None:
        """Look again in a while."""
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._check is not None:
            self._check.cancel()

    def _start(self) -> None:
        self._check = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        try:
            await self._auth.caller(self._scope)
        except AccessError as error:
            self._state.cut_off = error
            if self._state.deadline is not None:
                self._state.deadline.reschedule(asyncio.get_running_loop().time())
            return
        except HeadgateError:
            pass  # the store is away for the moment: look again
        self.wait()
