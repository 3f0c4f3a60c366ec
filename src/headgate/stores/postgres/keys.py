"""PostgresKeys: API keys in the table `keys`, found by the hash of their secret."""

from psycopg import errors

from headgate.protocols import Clock
from headgate.stores.codec import decode, encode
from headgate.stores.postgres.connection import Pool
from headgate.stores.postgres.shared import KnownTenants
from headgate.stores.validate import check_key, key_exists
from headgate.types import Key

_COLUMNS = "tenant, id, digest, scopes, name, created, revoked"


class PostgresKeys:
    """API keys of all tenants."""

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
                sql = f"INSERT INTO headgate.keys ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)"
                connection.execute(sql, row)
            except errors.UniqueViolation:
                raise key_exists(key) from None

    def key(self, digest: str) -> Key | None:
        with self._pool.directory() as connection:
            sql = f"SELECT {_COLUMNS} FROM headgate.keys WHERE digest = %s"
            row = connection.execute(sql, (digest,)).fetchone()
        return _from_row(row) if row else None

    def keys(self, tenant: str | None = None) -> list[Key]:
        only, values = ("", ()) if tenant is None else ("WHERE tenant = %s", (tenant,))
        with self._pool.directory() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM headgate.keys {only} ORDER BY created, tenant, id", values
            ).fetchall()
        return [_from_row(row) for row in rows]

    def revoke(self, tenant: str, id: str) -> bool:
        with self._pool.write(tenant) as connection:
            sql = (
                "UPDATE headgate.keys SET revoked = %s"
                " WHERE tenant = %s AND id = %s AND revoked IS NULL"
            )
            return connection.execute(sql, (self._clock(), tenant, id)).rowcount == 1


def _from_row(row: tuple[str, str, str, str, str, float, float | None]) -> Key:
    tenant, id, digest, scopes, name, created, revoked = row
    return Key(id, digest, tenant, decode(tuple, scopes), name, created, revoked)
