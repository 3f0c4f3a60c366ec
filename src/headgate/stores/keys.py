"""API keys of the stores: found by the hash of their secret, listed and revoked by tenant."""

from dataclasses import replace
from threading import RLock

from headgate.errors import InputError
from headgate.protocols import Clock
from headgate.stores.codec import decode, encode
from headgate.stores.sqlite.connection import Pool
from headgate.stores.validate import named
from headgate.types import Key

_COLUMNS = "tenant, id, digest, scopes, name, created, revoked"


class SqliteKeys:
    """Keys in the table `keys`."""

    _pool: Pool
    _clock: Clock

    def save_key(self, key: Key) -> None:
        _check(key)
        scopes = encode(key.scopes)
        row = (key.tenant, key.id, key.digest, scopes, key.name, key.created, key.revoked)
        with self._pool.write() as connection:
            taken = connection.execute(
                "SELECT 1 FROM keys WHERE digest = ? OR (tenant = ? AND id = ?)",
                (key.digest, key.tenant, key.id),
            )
            if taken.fetchone():
                raise _taken(key)
            connection.execute(f"INSERT INTO keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def key(self, digest: str) -> Key | None:
        with self._pool.read() as connection:
            sql = f"SELECT {_COLUMNS} FROM keys WHERE digest = ?"
            row = connection.execute(sql, (digest,)).fetchone()
        return _key(row) if row else None

    def keys(self, tenant: str | None = None) -> list[Key]:
        with self._pool.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM keys WHERE ?1 IS NULL OR tenant = ?1"
                " ORDER BY created, tenant, id",
                (tenant,),
            ).fetchall()
        return [_key(row) for row in rows]

    def revoke(self, tenant: str, id: str) -> bool:
        with self._pool.write() as connection:
            sql = "UPDATE keys SET revoked = ? WHERE tenant = ? AND id = ? AND revoked IS NULL"
            return connection.execute(sql, (self._clock(), tenant, id)).rowcount == 1


class MemoryKeys:
    """Keys in a dictionary by hash."""

    _clock: Clock
    _held: dict[str, Key]

    def _open(self) -> RLock:
        raise AssertionError("the store that holds these keys gives the lock")

    def save_key(self, key: Key) -> None:
        _check(key)
        with self._open():
            names = {(held.tenant, held.id) for held in self._held.values()}
            if key.digest in self._held or (key.tenant, key.id) in names:
                raise _taken(key)
            self._held[key.digest] = key

    def key(self, digest: str) -> Key | None:
        with self._open():
            return self._held.get(digest)

    def keys(self, tenant: str | None = None) -> list[Key]:
        with self._open():
            mine = [key for key in self._held.values() if tenant in (None, key.tenant)]
        return sorted(mine, key=lambda key: (key.created, key.tenant, key.id))

    def revoke(self, tenant: str, id: str) -> bool:
        with self._open():
            for digest, key in self._held.items():
                if (key.tenant, key.id, key.revoked) == (tenant, id, None):
                    self._held[digest] = replace(key, revoked=self._clock())
                    return True
        return False


def _check(key: Key) -> None:
    for what in ("tenant", "id", "digest"):
        named(f"the {what} of a key", getattr(key, what))
    if not key.scopes:
        raise InputError("a key without a scope opens nothing", hint="give it read, write, …")


def _taken(key: Key) -> InputError:
    return InputError(f"there is already a key {key.id!r}", hint="make a new one")


def _key(row: tuple[str, str, str, str, str, float, float | None]) -> Key:
    tenant, id, digest, scopes, name, created, revoked = row
    return Key(id, digest, tenant, decode(tuple, scopes), name, created, revoked)
