"""PostgresAccounts: API keys in the table `keys`, and what sessions, keys and tenants have spent in the table `spends`.

Keys are found by the hash of their secret. Gateways lock the spends that they change, always in the same order. A write
of spends does not wait for the server's disk: its crash may cost the last ones, a killed gateway none.
"""

from collections.abc import Callable, Sequence

from psycopg import errors

from millgate.protocols import Clock
from millgate.stores.codec import decode, decode_all, decode_or_skip, encode
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.rows import fetch_one
from millgate.stores.postgres.shared import KnownTenants
from millgate.stores.validate import check_key, check_spends, key_exists
from millgate.types import Key, Spend, SpendScope

_COLUMNS = "tenant, id, digest, scopes, name, created, revoked"
_BEGIN_SPEND = """
INSERT INTO millgate.spends VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_SPEND = """
SELECT body FROM millgate.spends WHERE tenant = %s AND scope = %s AND name = %s FOR UPDATE
"""
_SET_SPEND = """
UPDATE millgate.spends SET last = %s, body = %s WHERE tenant = %s AND scope = %s AND name = %s
"""


class PostgresAccounts:
    """Keys and spends of all tenants."""

    _pool: Pool
    _clock: Clock
    _tenants: KnownTenants

    def save_key(self, key: Key) -> None:
        check_key(key)
        self._tenants.add(key.tenant)
        scopes = encode(key.scopes)
        row = (key.tenant, key.id, key.digest, scopes, key.name, key.created, key.revoked)
        with self._pool.write(key.tenant) as connection:
            try:
                sql = f"INSERT INTO millgate.keys ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)"
                connection.execute(sql, row)
            except errors.UniqueViolation:
                raise key_exists(key) from None

    def key(self, digest: str) -> Key | None:
        with self._pool.directory() as connection:
            sql = f"SELECT {_COLUMNS} FROM millgate.keys WHERE digest = %s"
            row = connection.execute(sql, (digest,)).fetchone()
        return _key(row) if row else None

    def keys(self, tenant: str | None = None) -> list[Key]:
        only, values = ("", ()) if tenant is None else ("WHERE tenant = %s", (tenant,))
        with self._pool.directory() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM millgate.keys {only} ORDER BY created, tenant, id", values
            ).fetchall()
        return [_key(row) for row in rows]

    def revoke(self, tenant: str, id: str) -> bool:
        with self._pool.write(tenant) as connection:
            sql = (
                "UPDATE millgate.keys SET revoked = %s"
                " WHERE tenant = %s AND id = %s AND revoked IS NULL"
            )
            return connection.execute(sql, (self._clock(), tenant, id)).rowcount == 1

    def amend_spends(
        self,
        tenant: str,
        names: Sequence[tuple[SpendScope, str]],
        change: Callable[[list[Spend]], list[Spend]],
    ) -> list[Spend]:
        self._tenants.add(tenant)
        with self._pool.write(tenant, durable=False) as connection:
            held: dict[tuple[SpendScope, str], Spend] = {}
            for name in sorted(set(names)):
                fresh = Spend(*name)
                connection.execute(_BEGIN_SPEND, (tenant, *name, fresh.last, encode(fresh)))
                (body,) = fetch_one(connection, _SPEND, (tenant, *name))
                held[name] = decode_or_skip(Spend, name[1], body) or fresh
            now = check_spends(tenant, names, change([held[name] for name in names]))
            with connection.cursor() as cursor:
                rows = [(row.last, encode(row), tenant, row.scope, row.name) for row in now]
                cursor.executemany(_SET_SPEND, rows)
            return now

    def spends(
        self, tenant: str, *, scope: SpendScope | None = None, limit: int = 100
    ) -> list[Spend]:
        only, values = ("", [tenant]) if scope is None else (" AND scope = %s", [tenant, scope])
        sql = (
            f"SELECT name, body FROM millgate.spends WHERE tenant = %s{only}"
            " ORDER BY last DESC, scope, name LIMIT %s"
        )
        rows = self._pool.fetch(tenant, sql, (*values, max(limit, 0)))
        return decode_all(Spend, rows)

    def forget_spends(self, tenant: str, *, idle_since: float) -> int:
        with self._pool.write(tenant, durable=False) as connection:
            sql = (
                "DELETE FROM millgate.spends WHERE tenant = %s AND scope = 'session' AND last < %s"
            )
            return connection.execute(sql, (tenant, idle_since)).rowcount


def _key(row: tuple[str, str, str, str, str, float, float | None]) -> Key:
    tenant, id, digest, scopes, name, created, revoked = row
    return Key(id, digest, tenant, decode(tuple, scopes), name, created, revoked)
