"""PostgresTraces: traces in the table `traces`, each with a summary in front of its packed body.

Traces do not wait for the server's disk: its crash may lose the last ones. Old ones go in small transactions.
"""

from functools import partial

from millgate.protocols import Clock
from millgate.stores.chunk_rows import from_row
from millgate.stores.codec import encode
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.rows import COLUMNS, HERE, fetch_one, next_number
from millgate.stores.postgres.shared import KnownTenants
from millgate.stores.stored_trace import pack_trace, read_summary, trim, unpack_trace
from millgate.types import Chunk, Trace, TraceSummary

DAY = 86_400.0
_BATCH = 500  # traces deleted in one transaction
_OLD = "created < %s"
_BEYOND = "number <= %s"
# what there is to prune of a tenant: mostly nothing, and then this is all that is asked
_HELD = """
SELECT (SELECT min(number) FROM millgate.traces WHERE tenant = %s),
  (SELECT max(number) FROM millgate.traces WHERE tenant = %s),
  (SELECT min(created) FROM millgate.traces WHERE tenant = %s),
  (SELECT sum(size) FROM millgate.traces WHERE tenant = %s)
"""
_CUT = """
SELECT number FROM (
  SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM millgate.traces WHERE tenant = %s
) sums WHERE total > %s ORDER BY number DESC LIMIT 1
"""


class PostgresTraces:
    """Traces of all tenants."""

    _pool: Pool
    _clock: Clock
    _tenants: KnownTenants

    def save_trace(self, trace: Trace, *, keep: int = 10_000, text: bool = True) -> None:
        tenant = trace.request.tenant
        self._tenants.add(tenant)
        kept = trim(trace, text=text)
        body = pack_trace(kept, partial(self._stored_chunks, tenant))
        summary = encode(TraceSummary.of(kept))
        with self._pool.write(tenant, durable=False) as connection:
            number = next_number(connection, tenant, "trace")
            connection.execute(
                "INSERT INTO millgate.traces VALUES (%s, %s, %s, %s, %s, %s, %s)"
                " ON CONFLICT (tenant, id) DO UPDATE SET number = excluded.number,"
                " created = excluded.created, size = excluded.size, summary = excluded.summary,"
                " body = excluded.body",
                (tenant, trace.id, number, trace.created, len(body) + len(summary), summary, body),
            )
            sql = "DELETE FROM millgate.traces WHERE tenant = %s AND number <= %s"
            connection.execute(sql, (tenant, number - keep))

    def trace(self, tenant: str, id: str) -> Trace | None:
        sql = "SELECT body FROM millgate.traces WHERE tenant = %s AND id = %s"
        rows = self._pool.fetch(tenant, sql, (tenant, id))
        return unpack_trace(rows[0][0], partial(self._stored_chunks, tenant)) if rows else None

    def traces(self, tenant: str, *, limit: int = 100) -> list[TraceSummary]:
        sql = (
            "SELECT id, created, summary FROM millgate.traces"
            " WHERE tenant = %s ORDER BY number DESC LIMIT %s"
        )
        rows = self._pool.fetch(tenant, sql, (tenant, max(limit, 0)))
        return [read_summary(*row) for row in rows]

    def prune_traces(
        self, *, keep: int, age_s: float | None = None, max_bytes: int | None = None
    ) -> int:
        now = self.lease_upkeep(0.0) or _trust(self._clock(), self._read_clock())
        after = None if age_s is None else now - age_s
        return sum(
            self.prune_tenant_traces(tenant, keep=keep, created_after=after, max_bytes=max_bytes)
            for tenant in self._tenants.names()
        )

    def prune_tenant_traces(
        self,
        tenant: str,
        *,
        keep: int,
        created_after: float | None = None,
        max_bytes: int | None = None,
    ) -> int:
        ((first, last, oldest, size),) = self._pool.fetch(tenant, _HELD, (tenant,) * 4)
        if last is None:
            return 0
        gone = 0
        if created_after is not None and oldest < created_after:
            gone += self._delete(tenant, _OLD, created_after)
        if first <= last - keep:
            gone += self._delete(tenant, _BEYOND, last - keep)
        if max_bytes is not None and size > max_bytes:
            for (cut,) in self._pool.fetch(tenant, _CUT, (tenant, max_bytes)):
                gone += self._delete(tenant, _BEYOND, cut)
        return gone

    def lease_upkeep(self, seconds: float) -> float | None:
        """The store's clock is when all tenants were pruned last: the gateway that moves it on has the turn."""
        before = self._read_clock()
        trusted = _trust(self._clock(), before)
        if abs(trusted - before) < seconds:
            return None
        with self._pool.directory(write=True) as connection:
            sql = "UPDATE millgate.store SET clock = %s WHERE clock = %s"
            taken = connection.execute(sql, (trusted, before)).rowcount == 1
        return trusted if taken else None

    def _stored_chunks(self, tenant: str, collection: str, ids: list[str]) -> list[Chunk]:
        sql = f"SELECT {COLUMNS} FROM millgate.chunks WHERE {HERE} AND id = ANY(%s)"
        rows = self._pool.fetch(tenant, sql, (tenant, collection, list(ids)))
        return [from_row(collection, row) for row in rows]

    def _delete(self, tenant: str, which: str, value: float) -> int:
        """Delete the traces for which a condition holds, batch by batch; how many went."""
        sql = (
            "DELETE FROM millgate.traces WHERE tenant = %s AND id IN"
            f" (SELECT id FROM millgate.traces WHERE tenant = %s AND {which} LIMIT {_BATCH})"
        )
        gone = 0
        while True:
            with self._pool.write(tenant, durable=False) as connection:
                count = connection.execute(sql, (tenant, tenant, value)).rowcount
            gone += count
            if count < _BATCH:
                return gone

    def _read_clock(self) -> float:
        with self._pool.directory() as connection:
            (before,) = fetch_one(connection, "SELECT clock FROM millgate.store")
        return float(before)


def _trust(now: float, before: float) -> float:
    """The time, which moves at most a day from one call to the next: a clock that is far ahead deletes little."""
    return min(now, before + DAY) if before else now
