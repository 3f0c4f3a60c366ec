"""Body room: what the bodies of one process may weigh together.

A body may take thirty times its bytes once it is parsed, and a window seven times its bytes while it is read. So bodies
are weighed, and share a room. While they are held, one caller fills two thirds of it at most, and what does not fit is
refused. While they are worked on, those that are too many wait for their turn, in the order they came. Bodies of
ordinary size pass whatever others hold. A request that is cut off holds both until its threads have ended
(`thread_work.py`).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from headgate.errors import BusyError
from headgate.text.bounded_json import estimate_marks

P = ParamSpec("P")
R = TypeVar("R")

# weight of a body that neither is refused nor waits because of others: 200 000 tokens
ORDINARY = 1 << 20
SMALL = 8 << 10  # bytes of a body that weighs no more than it has
# Weight of all large bodies at work at a time; a larger one is worked on alone: threads that compute share one
# interpreter anyway.
AT_WORK = 2 << 20
# A text that is kept takes up to eighty times its bytes while it is cut and indexed, a window seven times.
KEEPING_PATHS = ("/v1/documents", "/v1/turns", "/mcp")
KEEPING = 16
USUAL = 16  # bytes of ordinary JSON for each of its values; more values than that weigh extra
VALUE = 64  # what each of them weighs, as an empty object does
# after a body of 4 MiB, less after a lighter one: reading it holds the loop, which others need
PAUSE_S = 0.05


async def read_apart(body: bytes, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do what reads a body; in a thread where that takes so long that others would wait for it."""
    if weigh(body) <= AT_WORK:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


def weigh(body: bytes) -> int:
    """About what a body weighs: its bytes, and more where it holds unusually many values."""
    if len(body) <= SMALL:
        return len(body)
    return len(body) + VALUE * max(0, estimate_marks(body) - len(body) // USUAL)


def weigh_work(path: str, weight: int) -> int:
    """What the work that a path does with a body weighs."""
    return weight * KEEPING if path in KEEPING_PATHS else weight


class BodyRoom:
    """Where bodies are held: as much as the largest body for each caller, and half as much again for all."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._held = 0
        self._by_caller: dict[object, int] = {}

    @contextmanager
    def share(self, caller: object) -> Iterator[Callable[[int], None]]:
        """What one request of a caller holds, given back in the end: call it to hold so much more.

        BusyError where there is no room for it. Whoever is alone with one body always has room.
        """
        size = 0

        def take(more: int) -> None:
            nonlocal size
            size += more
            self._held += more
            own = self._by_caller[caller] = self._by_caller.get(caller, 0) + more
            if size <= ORDINARY or size == self._held:
                return
            if own > self._largest or self._held > self._largest * 3 // 2:
                raise BusyError(
                    "the requests that are under way are too large together",
                    retry_after=1.0,
                    hint="wait for one to end, or send less; service.body_bytes bounds them",
                )

        try:
            yield take
        finally:
            self._held -= size
            left = self._by_caller.pop(caller, 0) - size
            if left:
                self._by_caller[caller] = left


class Turns:
    """Lets bodies be worked on: so much weight at a time, in the order they came."""

    def __init__(self, most: int = AT_WORK) -> None:
        self._most = self._left = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def wait(self, weight: int) -> Callable[[], object]:
        """Wait for the turn of a body; what gives it back is returned. One of ordinary size has it at once."""
        if weight <= ORDINARY:
            return lambda: None
        taken = min(weight, self._most)
        await self._enter(taken)
        pause = PAUSE_S * min(1.0, weight / (4 * ORDINARY))
        return partial(asyncio.get_running_loop().call_later, pause, self._leave, taken)

    def _leave(self, weight: int) -> None:
        self._left += weight
        self._let_in()

    async def _enter(self, weight: int) -> None:
        if not self._waiting and weight <= self._left:
            self._left -= weight
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (weight, turn)
        self._waiting.append(entry)
        try:
            await turn
        except BaseException:
            if entry in self._waiting:
                self._waiting.remove(entry)
            elif not turn.cancelled():
                self._left += weight  # let in just when it gave up
            self._let_in()
            raise

    def _let_in(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._left:
            weight, turn = self._waiting.popleft()
            if not turn.done():
                self._left -= weight
                turn.set_result(None)
