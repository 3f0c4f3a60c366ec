"""Cache: the one class for everything that is computed once and looked up again.

A cache holds at most `max_bytes` and forgets its least recently used entries first. `clear_caches` empties every cache
of the process. A forked child begins with empty ones: a lock of its parent may be held by a thread that the child does
not have.

A cache earns its place only if a second run of the same work is measurably cheaper end to end. The comment beside each
one says by how much.
"""

import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakSet

# Bytes of an entry beside a large key or value: its tuple, its time, its place in the dict and a small value take
# 250 (tracemalloc over 100 000 entries, CPython 3.11).
ENTRY_BYTES = 250

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


class Cache(Generic[K, V]):
    """A mapping that forgets its least recently used entries beyond `max_bytes`. Safe to share between threads.

    `measure` is the bytes of a key and its value together; it may be left out if both are small numbers. No value is
    None. Entries older than `max_age_s` are not found, and there are never more than `max_entries`.
    """

    def __init__(
        self,
        max_bytes: int,
        measure: Callable[[K, V], int] | None = None,
        *,
        max_entries: int | None = None,
        max_age_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_entries = max_bytes if max_entries is None else max_entries
        self._max_age_s = max_age_s
        self._clock = clock
        self._measure = measure
        self._lock = Lock()
        self._items: OrderedDict[K, tuple[V, int, float]] = OrderedDict()
        self._bytes = 0
        _CACHES.add(self)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self._bytes = 0

    def reset_after_fork(self) -> None:
        """Begin empty in a forked child, with a new lock."""
        self._lock = Lock()
        self.clear()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def bytes(self) -> int:
        """The bytes that all entries take together."""
        return self._bytes

    def get(self, key: K) -> V | None:
        """The value of a key, None if there is none."""
        return self.get_many((key,))[0]

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """The value of each key, None if there is none."""
        items = self._items
        found: list[V | None] = []
        oldest = self._clock() - self._max_age_s if self._max_age_s < math.inf else -math.inf
        for key in keys:
            try:
                value, _, written = items[key]
                # Without the lock, which would take two thirds of the time of a hit. Each call is atomic, and if
                # another thread forgets the key in between, this one has not found it.
                if written > oldest:
                    items.move_to_end(key)
            except KeyError:
                found.append(None)
            else:
                found.append(value if written > oldest else None)
        return found

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of the one that the key had."""
        self.put_many({key: value})

    def put_many(self, items: Mapping[K, V]) -> None:
        """Keep values, but not one that is larger than the cache; then forget what is beyond the limits."""
        now, measure = self._clock(), self._measure
        with self._lock:
            for key, value in items.items():
                self._remove(key)
                size = ENTRY_BYTES + (measure(key, value) if measure else 0)
                if size <= self._max_bytes:
                    self._items[key] = value, size, now
                    self._bytes += size
            while self._bytes > self._max_bytes or len(self._items) > self._max_entries:
                _, (_, size, _) = self._items.popitem(last=False)
                self._bytes -= size

    def read(
        self, keys: Sequence[K], things: Sequence[T], compute: Callable[[list[T]], Iterable[V]]
    ) -> list[V]:
        """The value of each key; the things whose keys have none go through `compute` together."""
        known = dict(zip(keys, self.get_many(keys), strict=True))
        new = {k: thing for k, thing in zip(keys, things, strict=True) if known[k] is None}
        if new:
            fresh = dict(zip(new, compute([*new.values()]), strict=True))
            self.put_many(fresh)
            known |= fresh
        return [value for key in keys if (value := known[key]) is not None]

    def pop(self, key: K) -> V | None:
        """Forget a key; its value, None if there was none."""
        with self._lock:
            return self._remove(key)

    def items(self) -> list[tuple[K, V]]:
        """All entries, most recently used first. Looking at them this way is not a use."""
        with self._lock:
            # a list first: threads that find something change the order
            return [(key, self._items[key][0]) for key in reversed(list(self._items))]

    def _remove(self, key: K) -> V | None:
        item = self._items.pop(key, None)
        if item is None:
            return None
        self._bytes -= item[1]
        return item[0]


_CACHES: "WeakSet[Cache[Any, Any]]" = WeakSet()


def clear_caches() -> None:
    """Empty every cache of the process."""
    for cache in list(_CACHES):
        cache.clear()


def _reset_caches() -> None:
    for cache in list(_CACHES):
        cache.reset_after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_reset_caches)
