"""PostgresSpends: what sessions, keys and tenants have spent, in the table `spends`.

Gateways lock the rows that they change, always in the same order. A write does not wait for the server's disk: its
crash may cost the last ones, a killed gateway none.
"""

from collections.abc import Callable, Sequence

from headgate.stores.codec import decode, encode
from headgate.stores.postgres.connection import Pool
from headgate.stores.postgres.rows import fetch_one
from headgate.stores.postgres.shared import KnownTenants
from headgate.stores.validate import check_spends
from headgate.types import Spend, SpendScope

_BEGIN = """
INSERT INTO headgate.spends VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_ONE = """
SELECT body FROM headgate.spends WHERE tenant = %s AND scope = %s AND name = %s FOR UPDATE
"""
_SET = """
UPDATE headgate.spends SET last = %s, body = %s WHERE tenant = %s AND scope = %s AND name = %s
"""


class PostgresSpends:
    """Spends of all tenants."""

    _pool: Pool
    _tenants: KnownTenants

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
                connection.execute(_BEGIN, (tenant, *name, fresh.last, encode(fresh)))
                (body,) = fetch_one(connection, _ONE, (tenant, *name))
                held[name] = decode(Spend, body)
            now = check_spends(tenant, names, change([held[name] for name in names]))
            with connection.cursor() as cursor:
                rows = [(row.last, encode(row), tenant, row.scope, row.name) for row in now]
                cursor.executemany(_SET, rows)
            return now

    def spends(
        self, tenant: str, *, scope: SpendScope | None = None, limit: int = 100
    ) -> list[Spend]:
        only, values = ("", [tenant]) if scope is None else (" AND scope = %s", [tenant, scope])
        sql = (
            f"SELECT body FROM headgate.spends WHERE tenant = %s{only}"
            " ORDER BY last DESC, scope, name LIMIT %s"
        )
        rows = self._pool.fetch(tenant, sql, (*values, max(limit, 0)))
        return [decode(Spend, body) for (body,) in rows]

    def forget_spends(self, tenant: str, *, idle_since: float) -> int:
        with self._pool.write(tenant, durable=False) as connection:
            sql = (
                "DELETE FROM headgate.spends WHERE tenant = %s AND scope = 'session' AND last < %s"
            )
            return connection.execute(sql, (tenant, idle_since)).rowcount
