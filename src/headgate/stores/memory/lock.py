"""StoreLock: one lock around all dictionaries of a MemoryStore, which cannot be taken once the store is closed."""

from threading import RLock

from headgate.errors import StoreError
from headgate.protocols import Clock


class StoreLock:
    """A reentrant lock; `with lock:` raises StoreError after `close`."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._closed = False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise StoreError("the store is closed", hint="open it again")

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Refuse the lock from now on."""
        with self._lock:
            self._closed = True


class MemoryPart:
    """One part of a MemoryStore: all parts share the store's lock and clock."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock
