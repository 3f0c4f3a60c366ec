"""MemorySpends: what sessions, keys and tenants have spent, in a dictionary."""

from collections.abc import Callable, Sequence

from headgate.protocols import Clock
from headgate.stores.memory.collection import MemoryPart, StoreLock
from headgate.stores.validate import check_spends
from headgate.types import Spend, SpendScope


class MemorySpends(MemoryPart):
    """Spends of all tenants."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._spends: dict[tuple[str, SpendScope, str], Spend] = {}

    def amend_spends(
        self,
        tenant: str,
        names: Sequence[tuple[SpendScope, str]],
        change: Callable[[list[Spend]], list[Spend]],
    ) -> list[Spend]:
        with self._lock:
            held = [self._spends.get((tenant, *name), Spend(*name)) for name in names]
            now = check_spends(tenant, names, change(held))
            self._spends.update(
                {(tenant, *name): row for name, row in zip(names, now, strict=True)}
            )
            return now

    def spends(
        self, tenant: str, *, scope: SpendScope | None = None, limit: int = 100
    ) -> list[Spend]:
        with self._lock:
            mine = [
                row
                for (owner, kind, _), row in self._spends.items()
                if owner == tenant and scope in (None, kind)
            ]
        return sorted(mine, key=lambda row: (-row.last, row.scope, row.name))[: max(limit, 0)]

    def forget_spends(self, tenant: str, *, idle_since: float) -> int:
        with self._lock:
            idle = [
                name
                for name, row in self._spends.items()
                if name[:2] == (tenant, "session") and row.last < idle_since
            ]
            for name in idle:
                del self._spends[name]
            return len(idle)
