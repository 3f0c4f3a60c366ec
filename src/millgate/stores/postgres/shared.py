"""PostgresShared: what gateways share beside records: how many requests a key has left, and values by key.

A bucket is one row, refilled by the server's clock: gateways whose clocks differ count the same. Values are
deleted after a month.
"""

from collections.abc import Sequence
from sys import getsizeof

from millgate.protocols import Clock
from millgate.stores.postgres.connection import Pool
from millgate.stores.sql.database import fetch_one
from millgate.stores.validate import check_name
from millgate.text.cache import Cache

AGE_S = 30 * 86_400.0  # that a value is kept
_PRUNE_EVERY = (
    500  # values written between two deletions of old ones, so that one write in 500 pays for it
)

# Names of tenants that a process remembers: some ten thousand. A write for one that it forgot costs one more read.
_SEEN_BYTES = 4 << 20

_TAKE = """
INSERT INTO millgate.rates AS r (tenant, key, remaining, counted, taken)
VALUES (%(tenant)s, %(key)s, %(burst)s::float8 - 1, extract(epoch FROM clock_timestamp()), true)
ON CONFLICT (tenant, key) DO UPDATE SET
  remaining = least(%(burst)s, r.remaining + greatest(0, excluded.counted - r.counted) * %(rate)s)
    - CASE WHEN r.remaining + greatest(0, excluded.counted - r.counted) * %(rate)s >= 1 THEN 1 ELSE 0 END,
  counted = greatest(r.counted, excluded.counted),
  taken = r.remaining + greatest(0, excluded.counted - r.counted) * %(rate)s >= 1
RETURNING remaining, taken
"""


class PostgresShared:
    """The tables `rates` and `remembered`."""

    _pool: Pool
    _clock: Clock
    _values_written: int = 0

    def take_request(self, tenant: str, key: str, *, per_second: float, burst: float) -> float:
        values = {"tenant": tenant, "key": key, "burst": float(burst), "rate": per_second}
        with self._pool.write(tenant, durable=False, patience_s=1.0) as connection:
            left, taken = connection.execute(_TAKE, values).fetchone() or (0.0, True)
        return 0.0 if taken else float(max(0.0, 1 - left) / per_second)

    def remember(self, tenant: str, key: bytes, value: bytes, *, replace: bool = False) -> bytes:
        now = self._clock()
        clash = "(tenant, key) DO UPDATE SET value = excluded.value, written = excluded.written" if replace else "DO NOTHING"  # fmt: skip
        with self._pool.write(tenant, durable=False) as connection:
            connection.execute(
                f"INSERT INTO millgate.remembered VALUES (%s, %s, %s, %s) ON CONFLICT {clash}",
                (tenant, key, value, now),
            )
            self._values_written += 1
            if self._values_written % _PRUNE_EVERY == 1:
                sql = "DELETE FROM millgate.remembered WHERE tenant = %s AND written < %s"
                connection.execute(sql, (tenant, now - AGE_S))
            sql = "SELECT value FROM millgate.remembered WHERE tenant = %s AND key = %s"
            (stays,) = fetch_one(connection, sql, (tenant, key))
        return bytes(stays)

    def recall(self, tenant: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        sql = "SELECT key, value FROM millgate.remembered WHERE tenant = %s AND key = ANY(%s)"
        rows = self._pool.fetch(tenant, sql, (tenant, list(keys)), binary=True)
        return {bytes(key): bytes(value) for key, value in rows}


class KnownTenants:
    """The table `tenants`. A process remembers the names that it has seen there, and looks before it writes one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._seen: Cache[str, int] = Cache(_SEEN_BYTES, lambda name, _: getsizeof(name))

    def add(self, tenant: str) -> None:
        check_name("tenant", tenant)
        if self._seen.get(tenant):
            return
        look = "SELECT 1 FROM millgate.tenants WHERE tenant = %s"
        if not self._pool.fetch(tenant, look, (tenant,)):
            with self._pool.write(tenant) as connection:
                connection.execute(
                    "INSERT INTO millgate.tenants VALUES (%s) ON CONFLICT DO NOTHING", (tenant,)
                )
        self._seen.put(tenant, 1)

    def names(self) -> list[str]:
        """Every tenant that ever wrote anything."""
        with self._pool.directory() as connection:
            rows = connection.execute("SELECT tenant FROM millgate.tenants ORDER BY tenant")
            return [name for (name,) in rows.fetchall()]
