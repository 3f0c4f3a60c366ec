"""ByteBudget: what the requests and answers of one process may hold in memory together.

One number bounds request bodies, answers that are read whole and events that the guard holds back: a share of the
machine's memory. A large request waits for room, in the order of arrival, and is refused with 429 if none comes free
in time. An answer is never refused: whoever cannot hold it passes it on (`Share.try_hold`). What is ordinary in size
never waits, so a caller with large bodies cannot keep others out.
"""

import asyncio
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.errors import BusyError

# A request or an answer that holds no more than this is never refused: 1 MiB is the JSON of 200 000 tokens, the window
# of a large model.
ORDINARY = 1 << 20
# Share of the machine's memory, the other three quarters being for the index, the store and everything beside us.
MEMORY_SHARE = 4
WAIT_S = 5.0  # how long a large request waits for room: a large body is parsed and indexed in about a second
# cgroup v2 and v1: what a container may use, which the machine's own figure does not tell
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_UNKNOWN_MEMORY = 2 << 30  # where the system does not tell, as on Windows


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or less where a container sets a limit."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):
        found = [_UNKNOWN_MEMORY]
    for path in _CGROUP_LIMITS:
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):  # no such limit, or "max"
            continue
    return min(found)


class ByteBudget:
    """Bytes that are held now, and those who wait for room. Belongs to one event loop."""

    def __init__(self, total: int = 0, *, wait_s: float = WAIT_S) -> None:
        self.total = total or machine_memory() // MEMORY_SHARE
        self.held = 0
        self._wait_s = wait_s
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """What one request or answer holds, given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            share.close()

    def has_room(self, size: int) -> bool:
        """Whether so many bytes fit. Whoever holds nothing else beside always has room."""
        return not self.held or self.held + size <= self.total

    async def wait_for_room(self, size: int) -> None:
        """Take so many bytes, behind those who came before. BusyError if there is no room in time."""
        if not self._waiting and self.has_room(size):
            self.held += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(self._wait_s):
                await turn
        except BaseException as error:
            if entry in self._waiting:
                self._waiting.remove(entry)
            elif not turn.cancelled():  # let in just when it gave up
                self.held -= size
            self._let_in()
            if isinstance(error, TimeoutError):
                raise self._busy(size) from None
            raise

    def release(self, size: int) -> None:
        """Give so many bytes back."""
        self.held -= size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self.has_room(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.held += size
                turn.set_result(None)

    def _busy(self, size: int) -> BusyError:
        return BusyError(
            f"requests under way hold {self.held:,} of {self.total:,} bytes, and this one needs {size:,}",
            retry_after=1.0,
            hint="try again, or send less; service.memory_bytes raises the limit",
        )


class Share:
    """What one request or answer holds of a budget."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.held = 0

    async def hold(self, size: int) -> None:
        """Hold so many bytes more; a large share waits for room. BusyError if none comes free in time."""
        if self.held + size <= ORDINARY:
            self._budget.held += size
        else:
            await self._budget.wait_for_room(size)
        self.held += size

    def try_hold(self, size: int) -> bool:
        """Hold so many bytes more if there is room, without waiting; whether they are held."""
        if self.held + size > ORDINARY and not self._budget.has_room(size):
            return False
        self._budget.held += size
        self.held += size
        return True

    def drop(self, size: int) -> None:
        """Hold so many bytes fewer."""
        self.held -= size
        self._budget.release(size)

    def close(self) -> None:
        """Give everything back."""
        self.drop(self.held)
