"""SqlTraces: traces in the table `traces`, each with a summary in front of its packed body.

A write of traces does not wait for the disk: a power cut may lose the last ones. Old ones go in small transactions, so
that other writers wait little. The store's clock is when all tenants were pruned last. It moves at most a day from one
time to the next, so that a clock that is far ahead deletes little.
"""

from collections.abc import Sequence
from functools import partial

from millgate.stores.codec import encode
from millgate.stores.sql.database import add_to_counter, fetch_one
from millgate.stores.sql.documents import SqlDocuments
from millgate.stores.stored_trace import pack_trace, read_summary, trim, unpack_trace
from millgate.types import Trace, TraceSummary

DAY = 86_400.0
_BATCH = 500  # traces deleted in one transaction
_OLD = "created < ?"
_BEYOND = "number <= ?"
_REPLACE = """
ON CONFLICT (tenant, id) DO UPDATE SET number = excluded.number, created = excluded.created,
size = excluded.size, summary = excluded.summary, body = excluded.body
"""
# what there is to prune of a tenant: mostly nothing, and then this is all that is asked
_HELD = """
SELECT (SELECT min(number) FROM millgate.traces WHERE tenant = ?),
  (SELECT max(number) FROM millgate.traces WHERE tenant = ?),
  (SELECT min(created) FROM millgate.traces WHERE tenant = ?),
  (SELECT sum(size) FROM millgate.traces WHERE tenant = ?)
"""
_CUT = """
SELECT number FROM (
  SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM millgate.traces WHERE tenant = ?
) sums WHERE total > ? ORDER BY number DESC LIMIT 1
"""


class SqlTraces(SqlDocuments):
    """Traces of all tenants, over the documents that they refer to."""

    def save_trace(self, trace: Trace, *, keep: int = 10_000, text: bool = True) -> None:
        self.save_traces([trace], keep=keep, text=text)

    def save_traces(
        self, traces: Sequence[Trace], *, keep: int = 10_000, text: bool = True
    ) -> None:
        """Save several traces, those of a tenant in one transaction."""
        tenants: dict[str, list[Trace]] = {}
        for trace in traces:
            tenants.setdefault(trace.request.tenant, []).append(trim(trace, text=text))
        for tenant, some in tenants.items():
            self._know(tenant)
            packed = [
                (pack_trace(one, partial(self.chunks, tenant)), encode(TraceSummary.of(one)))
                for one in some
            ]
            with self._pool.write(tenant, durable=False) as link:
                last = add_to_counter(link, tenant, "trace", len(some))
                rows = [
                    (tenant, one.id, number, one.created, len(body) + len(summary), summary, body)
                    for number, one, (body, summary) in zip(
                        range(last - len(some) + 1, last + 1), some, packed, strict=True
                    )
                ]
                link.insert("traces", rows, on_conflict=_REPLACE)
                sql = f"DELETE FROM millgate.traces WHERE tenant = ? AND {_BEYOND}"
                link.execute(sql, (tenant, last - keep))

    def trace(self, tenant: str, id: str) -> Trace | None:
        sql = "SELECT body FROM millgate.traces WHERE tenant = ? AND id = ?"
        rows = self._pool.fetch(tenant, sql, (tenant, id))
        return unpack_trace(rows[0][0], partial(self.chunks, tenant)) if rows else None

    def traces(self, tenant: str, *, limit: int = 100) -> list[TraceSummary]:
        sql = (
            "SELECT id, created, summary FROM millgate.traces"
            " WHERE tenant = ? ORDER BY number DESC LIMIT ?"
        )
        rows = self._pool.fetch(tenant, sql, (tenant, max(limit, 0)))
        return [read_summary(*row) for row in rows]

    def prune_traces(
        self, *, keep: int, age_s: float | None = None, max_bytes: int | None = None
    ) -> int:
        now = self._move_clock(0.0) or self._read_clocks()[1]
        after = None if age_s is None else now - age_s
        return sum(
            self.prune_tenant_traces(tenant, keep=keep, created_after=after, max_bytes=max_bytes)
            for tenant in self.tenants()
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

    def _move_clock(self, seconds: float) -> float | None:
        """Move the store's clock on, if it is so many seconds behind; None if it is not, or another process did."""
        before, trusted = self._read_clocks()
        if abs(trusted - before) < seconds:
            return None
        with self._pool.directory(write=True) as link:
            sql = "UPDATE millgate.store SET clock = ? WHERE clock = ?"
            return trusted if link.execute(sql, (trusted, before)).rowcount else None

    def _read_clocks(self) -> tuple[float, float]:
        """The store's clock, and the time as far as it can be trusted."""
        with self._pool.directory() as link:
            (before,) = fetch_one(link, "SELECT clock FROM millgate.store")
        return before, min(self._clock(), before + DAY) if before else self._clock()

    def _delete(self, tenant: str, which: str, value: float) -> int:
        """Delete the traces for which a condition holds, batch by batch; how many went."""
        sql = (
            "DELETE FROM millgate.traces WHERE tenant = ? AND id IN"
            f" (SELECT id FROM millgate.traces WHERE tenant = ? AND {which} LIMIT {_BATCH})"
        )
        gone, count = 0, _BATCH
        while count == _BATCH:
            with self._pool.write(tenant, durable=False) as link:
                count = link.execute(sql, (tenant, tenant, value)).rowcount
            gone += count
        return gone
