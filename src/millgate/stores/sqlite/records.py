"""SqliteRecords: edges, facts, secrets and reviews of the SQLite store.

Records are kept as JSON beside the few columns that queries use. A tenant's first secret is derived from the store's
own, so that reading never has to write.
"""

import sqlite3
from collections.abc import Callable, Sequence
from hashlib import blake2b
from secrets import token_bytes

from millgate.protocols import Clock
from millgate.stores.codec import decode, decode_all, decode_or_skip, encode
from millgate.stores.sqlite.connection import Pool
from millgate.stores.sqlite.rows import check_quota, next_number
from millgate.stores.validate import (
    already_decided,
    check_amended,
    check_direction,
    check_edges,
    check_fact,
    check_name,
    check_review,
)
from millgate.types import Edge, Fact, FactChange, Review, Secret, node_key

_EDGE = "-weight, source, predicate, target, provenance"  # so that rows sort strongest first
_ANY = "SELECT 1 FROM edges WHERE tenant = ? LIMIT 1"
_STRONGEST = f"""
SELECT {_EDGE} FROM edges WHERE tenant = ? AND {{side}}_key = ?
ORDER BY weight DESC, source, predicate, target LIMIT ?
"""
# most names of a request are no nodes: to look them all up at once takes a tenth of the time of one by one
_NODES = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM edges WHERE tenant = ? AND {side}_key = value)"
_SIDES = {
    direction: (_NODES.format(side=side), _STRONGEST.format(side=side))
    for direction, side in (("out", "source"), ("in", "target"))
}
_UNLINK = (
    "DELETE FROM edges WHERE tenant = ? AND source_key = ? AND predicate = ? AND target_key = ?"
)
_LINK = """
INSERT INTO edges (tenant, source, predicate, target, weight, provenance, source_key, target_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, source, predicate, target) DO UPDATE
SET weight = excluded.weight, provenance = excluded.provenance
WHERE weight <> excluded.weight OR provenance <> excluded.provenance
"""


class SqliteRecords:
    """Everything a store keeps besides documents, traces and API keys."""

    _pool: Pool
    _clock: Clock
    _tenant_bytes: int | None

    def link(self, tenant: str, edges: Sequence[Edge]) -> int:
        check_edges(tenant, edges)
        rows = [
            (tenant, e.source, e.predicate, e.target, e.weight, e.provenance,
             node_key(e.source), node_key(e.target))
            for e in edges
        ]  # fmt: skip
        with self._pool.write() as connection:
            changed = connection.executemany(_LINK, rows).rowcount if rows else 0
            if changed:
                check_quota(connection, tenant, self._tenant_bytes)
            return changed

    def unlink(self, tenant: str, edges: Sequence[Edge]) -> int:
        rows = [(tenant, node_key(e.source), e.predicate, node_key(e.target)) for e in edges]
        with self._pool.write() as connection:
            return connection.executemany(_UNLINK, rows).rowcount if rows else 0

    def has_edges(self, tenant: str) -> bool:
        with self._pool.read() as connection:
            return connection.execute(_ANY, (tenant,)).fetchone() is not None

    def edges_touching(
        self, tenant: str, nodes: Sequence[str], *, direction: str = "both", limit: int = 1000
    ) -> list[Edge]:
        check_direction(direction)
        sides = _SIDES.values() if direction == "both" else (_SIDES[direction],)
        asked = encode(list(dict.fromkeys(map(node_key, nodes))))
        found: set[tuple[float, str, str, str, str]] = set()
        with self._pool.snapshot() as connection:
            for known, strongest in sides:
                for (node,) in connection.execute(known, (asked, tenant)).fetchall():
                    found.update(connection.execute(strongest, (tenant, node, max(limit, 0))))
        return [
            Edge(s, p, t, -negative, provenance) for negative, s, p, t, provenance in sorted(found)
        ]

    def save_fact(self, tenant: str, fact: Fact) -> Fact:
        check_fact(tenant, fact)
        with self._pool.write() as connection:
            same = _same_fact(connection, tenant, fact)
            if same is None:
                _write_fact(connection, tenant, fact)
                check_quota(connection, tenant, self._tenant_bytes)
            return same or fact

    def amend_fact(self, tenant: str, id: str, change: Callable[[Fact], Fact]) -> Fact | None:
        with self._pool.write() as connection:
            return _amend_fact(connection, tenant, _read_fact(connection, tenant, id), change)

    def fact(self, tenant: str, id: str) -> Fact | None:
        with self._pool.read() as connection:
            return _read_fact(connection, tenant, id)

    def facts(self, tenant: str) -> list[Fact]:
        with self._pool.read() as connection:
            rows = connection.execute(
                "SELECT id, body FROM facts WHERE tenant = ? ORDER BY id", (tenant,)
            ).fetchall()
        return decode_all(Fact, rows)

    def forget(self, tenant: str, id: str) -> bool:
        with self._pool.write() as connection:
            sql = "DELETE FROM facts WHERE tenant = ? AND id = ?"
            if not connection.execute(sql, (tenant, id)).rowcount:
                return False
            seq = next_number(connection, tenant, "fact")
            connection.execute("REPLACE INTO forgotten VALUES (?, ?, ?)", (tenant, id, seq))
            return True

    def fact_changes(self, tenant: str, after: int) -> list[FactChange]:
        with self._pool.read() as connection:
            rows = connection.execute(
                "SELECT seq, id, body FROM facts WHERE tenant = ? AND seq > ? UNION ALL"
                " SELECT seq, id, NULL FROM forgotten WHERE tenant = ? AND seq > ? ORDER BY 1",
                (tenant, after) * 2,
            ).fetchall()
        return [
            FactChange(seq, id, None if body is None else decode_or_skip(Fact, id, body))
            for seq, id, body in rows
        ]

    def secret(self, tenant: str) -> bytes:
        return self.secrets(tenant)[0].key

    def secrets(self, tenant: str) -> list[Secret]:
        check_name("tenant", tenant)
        with self._pool.read() as connection:
            return _secrets(connection, tenant)

    def rotate(self, tenant: str, *, expires: float) -> Secret:
        check_name("tenant", tenant)
        fresh = Secret(token_bytes(32), self._clock())
        with self._pool.write() as connection:
            first, *_ = _secrets(connection, tenant)
            connection.execute(
                "INSERT OR IGNORE INTO secrets VALUES (?, 1, ?, ?, NULL)",
                (tenant, first.key, first.created),
            )
            connection.execute(
                "UPDATE secrets SET expires = ? WHERE tenant = ? AND expires IS NULL",
                (expires, tenant),
            )
            connection.execute(
                "INSERT INTO secrets SELECT tenant, max(number) + 1, ?, ?, NULL FROM secrets"
                " WHERE tenant = ?",
                (fresh.key, fresh.created, tenant),
            )
        return fresh

    def save_review(
        self,
        tenant: str,
        review: Review,
        *,
        most: int | None = None,
        patience_s: float | None = None,
    ) -> bool:
        check_review(tenant, review)
        row = (tenant, review.id, review.status, review.created, encode(review))
        with self._pool.write(patience_s=patience_s) as connection:
            status = connection.execute(
                "SELECT status FROM reviews WHERE tenant = ? AND id = ?", (tenant, review.id)
            ).fetchone()
            if status and status[0] != "pending":
                raise already_decided(review.id, status[0])
            (others,) = connection.execute(
                "SELECT count(*) FROM reviews WHERE tenant = ? AND status = 'pending' AND id != ?",
                (tenant, review.id),
            ).fetchone()
            if most is not None and others >= most:
                return False
            connection.execute("REPLACE INTO reviews VALUES (?, ?, ?, ?, ?)", row)
            return True

    def review(self, tenant: str, id: str) -> Review | None:
        with self._pool.read() as connection:
            row = connection.execute(
                "SELECT body FROM reviews WHERE tenant = ? AND id = ?", (tenant, id)
            ).fetchone()
        return decode(Review, row[0]) if row else None

    def reviews(self, tenant: str, *, status: str | None = None) -> list[Review]:
        only, values = ("", [tenant]) if status is None else (" AND status = ?", [tenant, status])
        with self._pool.read() as connection:
            rows = connection.execute(
                f"SELECT id, body FROM reviews WHERE tenant = ?{only} ORDER BY created, id", values
            ).fetchall()
        return decode_all(Review, rows)

    def decide(
        self,
        tenant: str,
        review: Review,
        *,
        fact: Fact | None = None,
        ids: Sequence[str] = (),
        amend: Callable[[Fact], Fact] = lambda fact: fact,
    ) -> bool:
        with self._pool.write() as connection:
            moved = connection.execute(
                "UPDATE reviews SET status = ?, created = ?, body = ?"
                " WHERE tenant = ? AND id = ? AND status = 'pending'",
                (review.status, review.created, encode(review), tenant, review.id),
            )
            if moved.rowcount != 1:
                return False
            known = _same_fact(connection, tenant, fact) if fact else None
            if fact and known is None:
                _write_fact(connection, tenant, fact)
            for held in (known, *(_read_fact(connection, tenant, id) for id in ids)):
                _amend_fact(connection, tenant, held, amend)
            return True


def _read_fact(connection: sqlite3.Connection, tenant: str, id: str) -> Fact | None:
    sql = "SELECT body FROM facts WHERE tenant = ? AND id = ?"
    row = connection.execute(sql, (tenant, id)).fetchone()
    return decode(Fact, row[0]) if row else None


def _same_fact(connection: sqlite3.Connection, tenant: str, fact: Fact) -> Fact | None:
    """Another fact of the tenant with the same key: one that says the same."""
    sql = "SELECT body FROM facts WHERE tenant = ? AND key = ? AND id <> ?"
    row = connection.execute(sql, (tenant, fact.key, fact.id)).fetchone()
    return decode(Fact, row[0]) if row else None


def _amend_fact(
    connection: sqlite3.Connection, tenant: str, held: Fact | None, change: Callable[[Fact], Fact]
) -> Fact | None:
    if held is None:
        return None
    now = check_amended(held, change(held))
    _write_fact(connection, tenant, now)
    return now


def _write_fact(connection: sqlite3.Connection, tenant: str, fact: Fact) -> None:
    """Write a fact that is new or differs, under the next number of the fact feed."""
    held = _read_fact(connection, tenant, fact.id)
    if held == fact:
        return
    seq = next_number(connection, tenant, "fact")
    # never REPLACE: it would silently delete another fact of the same key
    if held is None:
        sql = "INSERT INTO facts (tenant, id, content, seq, body, key) VALUES (?, ?, ?, ?, ?, ?)"
        row = (tenant, fact.id, fact.content, seq, encode(fact), fact.key)
        connection.execute(sql, row)
    elif held.content == fact.content:
        sql = "UPDATE facts SET seq = ?, body = ? WHERE tenant = ? AND id = ?"
        connection.execute(sql, (seq, encode(fact), tenant, fact.id))
    else:
        sql = "UPDATE facts SET content = ?, key = ?, seq = ?, body = ? WHERE tenant = ? AND id = ?"
        connection.execute(sql, (fact.content, fact.key, seq, encode(fact), tenant, fact.id))
    connection.execute("DELETE FROM forgotten WHERE tenant = ? AND id = ?", (tenant, fact.id))


def _secrets(connection: sqlite3.Connection, tenant: str) -> list[Secret]:
    rows = connection.execute(
        "SELECT key, created, expires FROM secrets WHERE tenant = ? ORDER BY number DESC", (tenant,)
    )
    if known := [Secret(*row) for row in rows]:
        return known
    key, created = connection.execute("SELECT secret, created FROM store").fetchone()
    return [Secret(blake2b(tenant.encode(), key=key, digest_size=32).digest(), created)]
