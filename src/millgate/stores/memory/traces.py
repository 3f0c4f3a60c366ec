"""MemoryTraces: traces in dictionaries by tenant, each with its size as JSON.

A trace is encoded once, when it comes and before the lock is taken, so that pruning adds up known sizes.
"""

from collections import defaultdict
from itertools import islice
from typing import NamedTuple

from millgate.protocols import Clock
from millgate.stores.codec import encode
from millgate.stores.memory.collection import MemoryPart, StoreLock
from millgate.stores.stored_trace import trim
from millgate.types import Trace, TraceSummary


class _Held(NamedTuple):
    trace: Trace
    size: int


class MemoryTraces(MemoryPart):
    """Traces of all tenants, oldest first."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._traces: dict[str, dict[str, _Held]] = defaultdict(dict)

    def save_trace(self, trace: Trace, *, keep: int = 10_000, text: bool = True) -> None:
        kept = trim(trace, text=text)
        new = _Held(kept, len(encode(kept)))
        with self._lock:
            held = self._traces[trace.request.tenant]
            held.pop(trace.id, None)
            held[trace.id] = new
            _delete_oldest(held, len(held) - keep)

    def trace(self, tenant: str, id: str) -> Trace | None:
        with self._lock:
            found = self._traces[tenant].get(id)
        return found.trace if found else None

    def traces(self, tenant: str, *, limit: int = 100) -> list[TraceSummary]:
        with self._lock:
            newest = list(islice(reversed(self._traces[tenant].values()), max(limit, 0)))
        return [TraceSummary.of(held.trace) for held in newest]

    def prune_traces(
        self, *, keep: int, age_s: float | None = None, max_bytes: int | None = None
    ) -> int:
        oldest = float("-inf") if age_s is None else self._clock() - age_s
        before = after = 0
        with self._lock:
            for held in self._traces.values():
                before += len(held)
                for id in [id for id, one in held.items() if one.trace.created < oldest]:
                    del held[id]
                _delete_oldest(held, len(held) - keep)
                if max_bytes is not None:
                    _delete_oldest(held, _count_beyond(held, max_bytes))
                after += len(held)
        return before - after


def _count_beyond(held: dict[str, _Held], max_bytes: int) -> int:
    """How many of the oldest must go, so that the others have at most `max_bytes`."""
    total = sum(one.size for one in held.values())
    count = 0
    for one in held.values():
        if total <= max_bytes:
            break
        total -= one.size
        count += 1
    return count


def _delete_oldest(held: dict[str, _Held], count: int) -> None:
    for id in list(islice(held, max(count, 0))):
        del held[id]
