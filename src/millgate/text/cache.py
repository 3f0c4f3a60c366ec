"""Cache: the one class for everything that is computed once and looked up again.

A cache holds at most `max_bytes` and forgets its least recently used entries first. A forked child begins with empty
ones: a lock of its parent may be held by a thread that the child does not have.

A cache earns its place only if a second run of the same work is measurably cheaper end to end. The comment beside each
one says by how much.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakSet

# Bytes of an entry beside a large key or value: its tuple, its place in the dict and a small value take 250
# (tracemalloc over 100 000 entries, CPython 3.11).
ENTRY_BYTES = 250

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A mapping that forgets its least recently used entries beyond `max_bytes`. Safe to share between threads.

    `measure` is the bytes of a key and its value together; it may be left out if both are small numbers. No value is
    None. There are never more than `max_entries`.
    """

    def __init__(
        self,
        max_bytes: int,
        measure: Callable[[K, V], int] | None = None,
        *,
        max_entries: int | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_entries = max_bytes if max_entries is None else max_entries
        self._measure = measure
        self.clear()
        _CACHES.add(self)

    def clear(self) -> None:
        """Begin empty, with a new lock."""
        self._lock = Lock()
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: K) -> V | None:
        """The value of a key, None if there is none."""
        try:
            value, _ = self._items[key]
            # Without the lock, which would take two thirds of the time of a hit. Each call is atomic, and if another
            # thread forgets the key in between, this one has not found it.
            self._items.move_to_end(key)
        except KeyError:
            return None
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of the one that the key had, unless it is larger than the cache."""
        size = ENTRY_BYTES + (self._measure(key, value) if self._measure else 0)
        with self._lock:
            if key in self._items:
                self.bytes -= self._items.pop(key)[1]
            if size <= self._max_bytes:
                self._items[key] = value, size
                self.bytes += size
            while self.bytes > self._max_bytes or len(self._items) > self._max_entries:
                self.bytes -= self._items.popitem(last=False)[1][1]


_CACHES: "WeakSet[Cache[Any, Any]]" = WeakSet()


def _clear_all() -> None:
    for cache in list(_CACHES):
        cache.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_clear_all)
