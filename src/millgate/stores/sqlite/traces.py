"""SqliteTraces: traces in the table `traces`, each with a summary in front of its packed body.

A write of traces does not wait for the disk: a power cut may lose the last ones. Old ones go in small transactions, so
that other writers wait little.
"""

from collections.abc import Sequence
from functools import partial

from millgate.protocols import Clock
from millgate.stores.codec import encode
from millgate.stores.sqlite.connection import Pool
from millgate.stores.sqlite.rows import next_number, read_chunks
from millgate.stores.stored_trace import pack_trace, read_summary, trim, unpack_trace
from millgate.types import Chunk, Trace, TraceSummary

DAY = 86_400.0
_BATCH = 500  # traces deleted in one transaction
_SAVE = """
REPLACE INTO traces (tenant, number, id, created, size, summary, body) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_OLD = "SELECT rowid FROM traces WHERE created < ? LIMIT ?"
_SURPLUS = """
SELECT traces.rowid FROM tenants JOIN traces USING (tenant)
WHERE tenant = ? AND number <= tenants.trace - ? LIMIT ?
"""
_BEYOND = "SELECT rowid FROM traces WHERE tenant = ? AND number <= ? LIMIT ?"
_CUT = """
SELECT number FROM (
  SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM traces WHERE tenant = ?
) WHERE total > ? ORDER BY number DESC LIMIT 1
"""


class SqliteTraces:
    """Traces of all tenants."""

    _pool: Pool
    _clock: Clock

    def save_trace(self, trace: Trace, *, keep: int = 10_000, text: bool = True) -> None:
        self.save_traces([trace], keep=keep, text=text)

    def save_traces(
        self, traces: Sequence[Trace], *, keep: int = 10_000, text: bool = True
    ) -> None:
        """Save several traces in one transaction."""
        tenants: dict[str, list[Trace]] = {}
        for trace in traces:
            tenants.setdefault(trace.request.tenant, []).append(trim(trace, text=text))
        rows = {tenant: [self._to_row(trace) for trace in of] for tenant, of in tenants.items()}
        with self._pool.write(durable=False) as connection:
            for tenant, some in rows.items():
                last = next_number(connection, tenant, "trace", len(some))
                numbered = enumerate(some, last - len(some) + 1)
                connection.executemany(_SAVE, [(tenant, number, *row) for number, row in numbered])
                sql = "DELETE FROM traces WHERE tenant = ? AND number <= ?"
                connection.execute(sql, (tenant, last - keep))

    def _to_row(self, trace: Trace) -> tuple[object, ...]:
        body = pack_trace(trace, partial(self._stored_chunks, trace.request.tenant))
        summary = encode(TraceSummary.of(trace))
        return trace.id, trace.created, len(body) + len(summary), summary, body

    def trace(self, tenant: str, id: str) -> Trace | None:
        with self._pool.read() as connection:
            sql = "SELECT body FROM traces WHERE tenant = ? AND id = ?"
            row = connection.execute(sql, (tenant, id)).fetchone()
        return unpack_trace(row[0], partial(self._stored_chunks, tenant)) if row else None

    def traces(self, tenant: str, *, limit: int = 100) -> list[TraceSummary]:
        with self._pool.read() as connection:
            rows = connection.execute(
                "SELECT id, created, summary FROM traces WHERE tenant = ? ORDER BY number DESC LIMIT ?",
                (tenant, max(limit, 0)),
            ).fetchall()
        return [read_summary(*row) for row in rows]

    def prune_traces(
        self, *, keep: int, age_s: float | None = None, max_bytes: int | None = None
    ) -> int:
        now = self._read_trusted_clock()
        gone = 0 if age_s is None else self._delete(_OLD, now - age_s)
        with self._pool.read() as connection:
            sql = "SELECT tenant, sum(size) FROM traces GROUP BY tenant"
            sizes = connection.execute(sql).fetchall()
        return gone + sum(self._prune(tenant, size, keep, max_bytes) for tenant, size in sizes)

    def prune_tenant_traces(self, tenant: str, *, keep: int, max_bytes: int | None = None) -> int:
        with self._pool.read() as connection:
            sql = "SELECT coalesce(sum(size), 0) FROM traces WHERE tenant = ?"
            (size,) = connection.execute(sql, (tenant,)).fetchone()
        return self._prune(tenant, size, keep, max_bytes)

    def _prune(self, tenant: str, size: int, keep: int, max_bytes: int | None) -> int:
        """Delete a tenant's traces beyond a number and, if they have this size, beyond the bytes that it may have."""
        gone = self._delete(_SURPLUS, tenant, keep)
        if max_bytes is not None and size > max_bytes:
            with self._pool.read() as connection:
                cut = connection.execute(_CUT, (tenant, max_bytes)).fetchone()
            gone += self._delete(_BEYOND, tenant, cut[0]) if cut else 0
        return gone

    def _stored_chunks(self, tenant: str, collection: str, ids: list[str]) -> list[Chunk]:
        with self._pool.read() as connection:
            return read_chunks(connection, tenant, collection, ids)

    def _delete(self, select: str, *values: object) -> int:
        """Delete the traces that a query finds, batch by batch; how many went."""
        gone = 0
        while True:
            with self._pool.read() as connection:
                rows = connection.execute(select, (*values, _BATCH)).fetchall()
            if rows:
                with self._pool.write(durable=False) as connection:
                    connection.executemany("DELETE FROM traces WHERE rowid = ?", rows)
            gone += len(rows)
            if len(rows) < _BATCH:
                return gone

    def _read_trusted_clock(self) -> float:
        """The time, which moves at most a day from one call to the next: a clock that is far ahead deletes little."""
        now = self._clock()
        with self._pool.read() as connection:
            (before,) = connection.execute("SELECT clock FROM store").fetchone()
        trusted = min(now, before + DAY) if before else now
        if abs(trusted - before) > 60:
            with self._pool.write(durable=False) as connection:
                connection.execute("UPDATE store SET clock = ?", (trusted,))
        return float(trusted)
