"""Malloc: how the C library keeps freed memory, set for a process that runs for months.

glibc gives each thread a heap of its own, and what one thread frees no other can use; and it raises the size from which
a block is given back to the system each time such a block is freed. Both are good for a short run. A service with a
pool of threads that build and merge arrays grows by what lies unused between them. So all share one heap, and large
blocks always go back; small ones do after a large request, and every minute.
"""

import asyncio
import ctypes

LARGE_BYTES = 1 << 20  # as large as an array over 130 000 chunks
EVERY_S = 60.0  # a minute of mixed traffic leaves about a megabyte unused
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h


def give_back() -> bool:
    """Give what lies unused to the system, which takes some milliseconds; whether the C library is glibc."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return False
    return True


async def give_back_regularly(every_s: float = EVERY_S) -> None:
    """Give back what lies unused again and again, in a thread, until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        await asyncio.to_thread(give_back)


def share_heap() -> bool:
    """Set both, where the C library is glibc; whether it is. Heaps that exist already stay."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(_M_ARENA_MAX, 1) and mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
