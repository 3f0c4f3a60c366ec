"""MemoryTraces: traces in dictionaries by tenant."""

from collections import defaultdict

from headgate.protocols import Clock
from headgate.stores.codec import encode
from headgate.stores.memory.collection import MemoryPart, StoreLock
from headgate.stores.stored_trace import trim
from headgate.types import Trace, TraceSummary


class MemoryTraces(MemoryPart):
    """Traces of all tenants, oldest first."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._traces: dict[str, dict[str, Trace]] = defaultdict(dict)

    def save_trace(self, trace: Trace, *, keep: int = 10_000, text: bool = True) -> None:
        with self._lock:
            held = self._traces[trace.request.tenant]
            held.pop(trace.id, None)
            held[trace.id] = trim(trace, text=text)
            _delete_oldest(held, len(held) - keep)

    def trace(self, tenant: str, id: str) -> Trace | None:
        with self._lock:
            return self._traces[tenant].get(id)

    def traces(self, tenant: str, *, limit: int = 100) -> list[TraceSummary]:
        with self._lock:
            newest = list(reversed(self._traces[tenant].values()))[: max(limit, 0)]
        return [TraceSummary.of(trace) for trace in newest]

    def prune_traces(
        self, *, keep: int, age_s: float | None = None, max_bytes: int | None = None
    ) -> int:
        oldest = float("-inf") if age_s is None else self._clock() - age_s
        before = after = 0
        with self._lock:
            for held in self._traces.values():
                before += len(held)
                for id in [trace.id for trace in held.values() if trace.created < oldest]:
                    del held[id]
                _delete_oldest(held, len(held) - keep)
                if max_bytes is not None:
                    sizes = [len(encode(trace)) for trace in held.values()]
                    while sum(sizes) > max_bytes:
                        _delete_oldest(held, 1)
                        del sizes[0]
                after += len(held)
        return before - after


def _delete_oldest(held: dict[str, Trace], count: int) -> None:
    for id in list(held)[: max(count, 0)]:
        del held[id]
