"""MemoryAccounts: API keys, and what sessions, keys and tenants have spent, in dictionaries."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from millgate.protocols import Clock
from millgate.stores.memory.collection import MemoryPart, StoreLock
from millgate.stores.validate import check_key, check_spends, key_exists
from millgate.types import Key, Spend, SpendScope


class MemoryAccounts(MemoryPart):
    """Keys, by the hash of their secret, and spends of all tenants."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._keys: dict[str, Key] = {}
        self._spends: dict[tuple[str, SpendScope, str], Spend] = {}

    def save_key(self, key: Key) -> None:
        check_key(key)
        with self._lock:
            names = {(held.tenant, held.id) for held in self._keys.values()}
            if key.digest in self._keys or (key.tenant, key.id) in names:
                raise key_exists(key)
            self._keys[key.digest] = key

    def key(self, digest: str) -> Key | None:
        with self._lock:
            return self._keys.get(digest)

    def keys(self, tenant: str | None = None) -> list[Key]:
        with self._lock:
            mine = [key for key in self._keys.values() if tenant in (None, key.tenant)]
        return sorted(mine, key=lambda key: (key.created, key.tenant, key.id))

    def revoke(self, tenant: str, id: str) -> bool:
        with self._lock:
            for digest, key in self._keys.items():
                if (key.tenant, key.id, key.revoked) == (tenant, id, None):
                    self._keys[digest] = replace(key, revoked=self._clock())
                    return True
        return False

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
