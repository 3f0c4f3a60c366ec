"""SqliteAccounts: API keys in the table `keys`, and what sessions, keys and tenants have spent in the table `spends`.

Keys are found by the hash of their secret. Spends are written before and after every call of a model, so a write does
not wait for the disk: a power cut may cost the last ones, a killed process none.
"""

from collections.abc import Callable, Sequence

from millgate.protocols import Clock
from millgate.stores.codec import decode, decode_all, decode_or_skip, encode
from millgate.stores.sqlite.connection import Pool
from millgate.stores.validate import check_key, check_spends, key_exists
from millgate.types import Key, Spend, SpendScope

_COLUMNS = "tenant, id, digest, scopes, name, created, revoked"
_SPEND = "SELECT body FROM spends WHERE tenant = ? AND scope = ? AND name = ?"


class SqliteAccounts:
    """Keys and spends of all tenants."""

    _pool: Pool
    _clock: Clock

    def save_key(self, key: Key) -> None:
        check_key(key)
        scopes = encode(key.scopes)
        row = (key.tenant, key.id, key.digest, scopes, key.name, key.created, key.revoked)
        with self._pool.write() as connection:
            taken = connection.execute(
                "SELECT 1 FROM keys WHERE digest = ? OR (tenant = ? AND id = ?)",
                (key.digest, key.tenant, key.id),
            )
            if taken.fetchone():
                raise key_exists(key)
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

    def amend_spends(
        self,
        tenant: str,
        names: Sequence[tuple[SpendScope, str]],
        change: Callable[[list[Spend]], list[Spend]],
    ) -> list[Spend]:
        with self._pool.write(durable=False) as connection:
            rows = [connection.execute(_SPEND, (tenant, *name)).fetchone() for name in names]
            held = [
                (row and decode_or_skip(Spend, name[1], row[0])) or Spend(*name)
                for name, row in zip(names, rows, strict=True)
            ]
            now = check_spends(tenant, names, change(held))
            connection.executemany(
                "REPLACE INTO spends (tenant, scope, name, last, body) VALUES (?, ?, ?, ?, ?)",
                [(tenant, row.scope, row.name, row.last, encode(row)) for row in now],
            )
            return now

    def spends(
        self, tenant: str, *, scope: SpendScope | None = None, limit: int = 100
    ) -> list[Spend]:
        with self._pool.read() as connection:
            rows = connection.execute(
                "SELECT name, body FROM spends WHERE tenant = ?1 AND (?2 IS NULL OR scope = ?2)"
                " ORDER BY last DESC, scope, name LIMIT ?3",
                (tenant, scope, max(limit, 0)),
            ).fetchall()
        return decode_all(Spend, rows)

    def forget_spends(self, tenant: str, *, idle_since: float) -> int:
        with self._pool.write(durable=False) as connection:
            sql = "DELETE FROM spends WHERE tenant = ? AND scope = 'session' AND last < ?"
            return connection.execute(sql, (tenant, idle_since)).rowcount


def _key(row: tuple[str, str, str, str, str, float, float | None]) -> Key:
    tenant, id, digest, scopes, name, created, revoked = row
    return Key(id, digest, tenant, decode(tuple, scopes), name, created, revoked)
