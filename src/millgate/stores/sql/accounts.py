"""SqlAccounts: API keys in the table `keys`, and what sessions, keys and tenants have spent in the table `spends`.

Keys are found by the hash of their secret. Spends are locked while they change, always in the same order. They are
written before and after every call of a model, so a write does not wait for the disk: a power cut may cost the last
ones, a killed process none.
"""

from collections.abc import Callable, Sequence

from millgate.stores.codec import decode, decode_all, decode_or_skip, encode
from millgate.stores.sql.database import SqlPart, fetch_one
from millgate.stores.validate import check_key, check_spends, key_exists
from millgate.types import Key, Spend, SpendScope

_KEYS = "SELECT tenant, id, digest, scopes, name, created, revoked FROM millgate.keys"
_SPEND = "SELECT body FROM millgate.spends WHERE tenant = ? AND scope = ? AND name = ? FOR UPDATE"
_SET_SPEND = (
    "UPDATE millgate.spends SET last = ?, body = ? WHERE tenant = ? AND scope = ? AND name = ?"
)


class SqlAccounts(SqlPart):
    """Keys and spends of all tenants."""

    def save_key(self, key: Key) -> None:
        check_key(key)
        self._know(key.tenant)
        scopes = encode(key.scopes)
        row = (key.tenant, key.id, key.digest, scopes, key.name, key.created, key.revoked)
        with self._pool.write(key.tenant) as link:
            sql = "INSERT INTO millgate.keys VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            if not link.execute(sql, row).rowcount:
                raise key_exists(key)

    def key(self, digest: str) -> Key | None:
        with self._pool.directory() as link:
            row = link.execute(f"{_KEYS} WHERE digest = ?", (digest,)).fetchone()
        return _key(row) if row else None

    def keys(self, tenant: str | None = None) -> list[Key]:
        only, values = ("", ()) if tenant is None else ("WHERE tenant = ?", (tenant,))
        with self._pool.directory() as link:
            rows = link.execute(f"{_KEYS} {only} ORDER BY created, tenant, id", values).fetchall()
        return [_key(row) for row in rows]

    def revoke(self, tenant: str, id: str) -> bool:
        with self._pool.write(tenant) as link:
            sql = "UPDATE millgate.keys SET revoked = ? WHERE tenant = ? AND id = ? AND revoked IS NULL"
            return link.execute(sql, (self._clock(), tenant, id)).rowcount == 1

    def amend_spends(
        self,
        tenant: str,
        names: Sequence[tuple[SpendScope, str]],
        change: Callable[[list[Spend]], list[Spend]],
    ) -> list[Spend]:
        self._know(tenant)
        fresh = {name: Spend(*name) for name in sorted(set(names))}
        with self._pool.write(tenant, durable=False) as link:
            rows = [(tenant, *name, new.last, encode(new)) for name, new in fresh.items()]
            link.insert("spends", rows, on_conflict="ON CONFLICT DO NOTHING")
            held = {}
            for name, new in fresh.items():
                (body,) = fetch_one(link, _SPEND, (tenant, *name))
                held[name] = decode_or_skip(Spend, name[1], body) or new
            now = check_spends(tenant, names, change([held[name] for name in names]))
            link.run_many(
                _SET_SPEND, [(row.last, encode(row), tenant, row.scope, row.name) for row in now]
            )
            return now

    def spends(
        self, tenant: str, *, scope: SpendScope | None = None, limit: int = 100
    ) -> list[Spend]:
        only, values = ("", [tenant]) if scope is None else (" AND scope = ?", [tenant, scope])
        sql = (
            f"SELECT name, body FROM millgate.spends WHERE tenant = ?{only}"
            " ORDER BY last DESC, scope, name LIMIT ?"
        )
        return decode_all(Spend, self._pool.fetch(tenant, sql, (*values, max(limit, 0))))

    def forget_spends(self, tenant: str, *, idle_since: float) -> int:
        with self._pool.write(tenant, durable=False) as link:
            sql = "DELETE FROM millgate.spends WHERE tenant = ? AND scope = 'session' AND last < ?"
            return link.execute(sql, (tenant, idle_since)).rowcount


def _key(row: tuple[str, str, str, str, str, float, float | None]) -> Key:
    tenant, id, digest, scopes, name, created, revoked = row
    return Key(id, digest, tenant, decode(tuple, scopes), name, created, revoked)
