"""SqliteSpends: what sessions, keys and tenants have spent, in the table `spends`.

They are written before and after every call of a model, so a write does not wait for the disk: a power cut may cost the
last ones, a killed process none.
"""

from collections.abc import Callable, Sequence

from headgate.stores.codec import decode, encode
from headgate.stores.sqlite.connection import Pool
from headgate.stores.validate import check_spends
from headgate.types import Spend, SpendScope

_ONE = "SELECT body FROM spends WHERE tenant = ? AND scope = ? AND name = ?"


class SqliteSpends:
    """Spends of all tenants."""

    _pool: Pool

    def amend_spends(
        self,
        tenant: str,
        names: Sequence[tuple[SpendScope, str]],
        change: Callable[[list[Spend]], list[Spend]],
    ) -> list[Spend]:
        with self._pool.write(durable=False) as connection:
            rows = [connection.execute(_ONE, (tenant, *name)).fetchone() for name in names]
            held = [
                decode(Spend, row[0]) if row else Spend(*name)
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
                "SELECT body FROM spends WHERE tenant = ?1 AND (?2 IS NULL OR scope = ?2)"
                " ORDER BY last DESC, scope, name LIMIT ?3",
                (tenant, scope, max(limit, 0)),
            ).fetchall()
        return [decode(Spend, body) for (body,) in rows]

    def forget_spends(self, tenant: str, *, idle_since: float) -> int:
        with self._pool.write(durable=False) as connection:
            sql = "DELETE FROM spends WHERE tenant = ? AND scope = 'session' AND last < ?"
            return connection.execute(sql, (tenant, idle_since)).rowcount
