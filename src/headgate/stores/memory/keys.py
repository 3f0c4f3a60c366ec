"""MemoryKeys: API keys in a dictionary, by the hash of their secret."""

from dataclasses import replace

from headgate.protocols import Clock
from headgate.stores.memory.collection import MemoryPart, StoreLock
from headgate.stores.validate import check_key, key_exists
from headgate.types import Key


class MemoryKeys(MemoryPart):
    """API keys of all tenants."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._keys: dict[str, Key] = {}

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
