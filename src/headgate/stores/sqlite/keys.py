"""SqliteKeys: API keys in the table `keys`, found by the hash of their secret."""

from headgate.protocols import Clock
from headgate.stores.codec import decode, encode
from headgate.stores.sqlite.connection import Pool
from headgate.stores.validate import check_key, key_exists
from headgate.types import Key

_COLUMNS = "tenant, id, digest, scopes, name, created, revoked"


class SqliteKeys:
    """API keys of all tenants."""

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
        return _from_row(row) if row else None

    def keys(self, tenant: str | None = None) -> list[Key]:
        with self._pool.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM keys WHERE ?1 IS NULL OR tenant = ?1"
                " ORDER BY created, tenant, id",
                (tenant,),
            ).fetchall()
        return [_from_row(row) for row in rows]

    def revoke(self, tenant: str, id: str) -> bool:
        with self._pool.write() as connection:
            sql = "UPDATE keys SET revoked = ? WHERE tenant = ? AND id = ? AND revoked IS NULL"
            return connection.execute(sql, (self._clock(), tenant, id)).rowcount == 1


def _from_row(row: tuple[str, str, str, str, str, float, float | None]) -> Key:
    tenant, id, digest, scopes, name, created, revoked = row
    return Key(id, digest, tenant, decode(tuple, scopes), name, created, revoked)
