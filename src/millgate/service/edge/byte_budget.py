"""ByteBudget: what the requests and answers of one process may hold in memory together; a semaphore of bytes.

One number bounds request bodies, answers that are read whole and events that the guard holds back: a share of the
machine's memory. A large request waits for free bytes, in the order of arrival, and is refused with 429 if too few
come free in time. An answer is never refused: the proxy passes on what it cannot hold (`Share.try_hold`). Requests of
ordinary size never wait, so a caller with large bodies cannot keep others out. A large one that is alone with ordinary
ones always fits, so the budget may be smaller than the largest request.
"""

import asyncio
import ctypes
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millgate.errors import BusyError

# A request or an answer that holds no more than this is never refused: 1 MiB is the JSON of 200 000 tokens, the window
# of a large model.
ORDINARY = 1 << 20
# Share of the machine's memory, the other three quarters being for the index, the store and everything beside us.
MEMORY_SHARE = 4
WAIT_S = 5.0  # how long a large request waits: a large body is parsed and indexed in about a second
# cgroup v2 and v1: what a container may use, which the machine's own figure does not tell
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # names of mallopt, in malloc.h
_UNKNOWN_MEMORY = 2 << 30  # if the system does not tell, as on Windows


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or less if a container sets a limit."""
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


def keep_heaps_small() -> None:
    """Have the C library give back what large requests held, where it is glibc.

    Each thread that finds a heap in use gets one of its own, up to eight a core, and what is freed there stays there:
    twelve conversations of 50 000 messages left 497 MB, with two heaps 158 (`make bench-attacks ARGS="--only
    short_messages"`). Python's threads compute one at a time, so two are enough. Blocks of a fixed size and more are
    given back to the system at once; else their size would grow with the largest body.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_ARENA_MAX, 2)
        libc.mallopt(_MMAP_THRESHOLD, 4 << 20)


class ByteBudget:
    """Bytes that are held now, and who waits for them. Belongs to one event loop."""

    def __init__(self, total: int = 0, *, wait_s: float = WAIT_S) -> None:
        self.total = total or machine_memory() // MEMORY_SHARE
        self.held = 0
        self.wait_s = wait_s
        self._large: set[Share] = set()  # those that hold more than what is ordinary
        self._waiting: deque[tuple[Share, int, asyncio.Future[None]]] = deque()

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """What one request or answer holds, given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            share.close()

    def fits(self, share: "Share", size: int) -> bool:
        """Whether a share may hold `size` more bytes: within the total, or beside no other large one."""
        return self.held + size <= self.total or self._large <= {share}

    async def acquire(self, share: "Share", size: int) -> None:
        """Let a share hold `size` more bytes, in the order of arrival. BusyError if too few come free in time."""
        if not self._waiting and self.fits(share, size):
            self.change(share, size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (share, size, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(self.wait_s):
                await turn
        except BaseException as error:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._wake_waiting()
            elif not turn.cancelled():  # woken just when it gave up
                self.change(share, -size)
            if isinstance(error, TimeoutError):
                raise self._busy(size) from None
            raise

    def change(self, share: "Share", size: int) -> None:
        """Let a share hold `size` more bytes, or fewer, whether they fit or not."""
        self.held += size
        share.held += size
        if share.held > ORDINARY:
            self._large.add(share)
        else:
            self._large.discard(share)
        if size < 0:
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        while self._waiting and self.fits(*self._waiting[0][:2]):
            share, size, turn = self._waiting.popleft()
            if not turn.done():
                self.change(share, size)
                turn.set_result(None)

    def _busy(self, size: int) -> BusyError:
        return BusyError(
            f"requests under way hold {self.held:,} of {self.total:,} bytes, and this one needs {size:,} more",
            retry_after=1.0,
            hint="try again, or send less; service.memory_bytes sets the limit",
        )


class Share:
    """What one request or answer holds of a budget."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.held = 0

    async def hold(self, size: int) -> None:
        """Hold `size` more bytes; a large share waits until they fit. BusyError if that takes too long."""
        if size and self.held + size > ORDINARY:
            await self._budget.acquire(self, size)
        else:
            self._budget.change(self, size)

    def try_hold(self, size: int) -> bool:
        """Hold `size` more bytes if they fit, without waiting; whether they are held."""
        if self.held + size > ORDINARY and not self._budget.fits(self, size):
            return False
        self._budget.change(self, size)
        return True

    def drop(self, size: int) -> None:
        """Hold `size` fewer bytes."""
        self._budget.change(self, -size)

    def close(self) -> None:
        """Give everything back."""
        self.drop(self.held)
