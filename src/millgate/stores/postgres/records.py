"""PostgresRecords: edges, facts, secrets and reviews of the PostgreSQL store.

Records are kept as JSON beside the few columns that queries use. A writer of a tenant's facts, reviews or
secrets holds the counter of that kind until the commit, so that what it looked up still holds when it writes, and the
fact feed has no gaps. A tenant's first secret is derived from the store's own, so that reading never has to write.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from secrets import token_bytes

from millgate.protocols import Clock
from millgate.stores.chunk_rows import Row, count_bytes
from millgate.stores.codec import decode, decode_all, decode_or_skip, encode
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.rows import (
    EDGE_BYTES,
    FACT_BYTES,
    Link,
    add_to_counter,
    as_text_array,
    check_quota,
    fetch_one,
    insert_rows,
    lock_counter,
    next_number,
)
from millgate.stores.postgres.shared import KnownTenants
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

_LINK = """
ON CONFLICT (tenant, source, predicate, target) DO UPDATE
SET weight = excluded.weight, provenance = excluded.provenance
WHERE edges.weight <> excluded.weight OR edges.provenance <> excluded.provenance
"""
_UNLINK = """
DELETE FROM millgate.edges WHERE tenant = %s AND source_key = %s AND predicate = %s AND target_key = %s
"""
_FACT = "SELECT body FROM millgate.facts WHERE tenant = %s AND id = %s"
_ANY = "SELECT 1 FROM millgate.edges WHERE tenant = %s LIMIT 1"
# the strongest edges of each node, found in the order of an index
_STRONGEST = """
(SELECT e.source, e.predicate, e.target, e.weight, e.provenance FROM unnest(%s::text[]) AS node,
LATERAL (SELECT * FROM millgate.edges WHERE tenant = %s AND {side}_key = node COLLATE "C"
ORDER BY weight DESC, source, predicate, target LIMIT %s) e)
"""
_BYTES_OF_EDGES = """
SELECT coalesce(sum(octet_length(e.source) + octet_length(e.predicate) + octet_length(e.target)
  + octet_length(e.provenance)), 0)::bigint
FROM unnest(%s::text[], %s::text[], %s::text[]) AS n (source, predicate, target)
JOIN millgate.edges e ON e.tenant = %s AND e.source_key = n.source COLLATE "C"
  AND e.predicate = n.predicate COLLATE "C" AND e.target_key = n.target COLLATE "C"
"""
_OUT = _STRONGEST.format(side="source")
_IN = _STRONGEST.format(side="target")
_SECRETS = """
SELECT key, created, expires FROM millgate.secrets WHERE tenant = %s ORDER BY number DESC
"""
_TOUCHING = {"out": _OUT, "in": _IN, "both": f"{_OUT} UNION {_IN}"}


class PostgresRecords:
    """Everything a store keeps besides documents, traces and API keys."""

    _pool: Pool
    _clock: Clock
    _tenants: KnownTenants
    _tenant_bytes: int | None
    _secret: tuple[bytes, float]
    """The store's own, and when it was made."""

    def link(self, tenant: str, edges: Sequence[Edge]) -> int:
        check_edges(tenant, edges)
        self._tenants.add(tenant)
        rows = {(e.source, e.predicate, e.target): (e.weight, e.provenance) for e in edges}
        lines = [
            (tenant, *key, *value, node_key(key[0]), node_key(key[2]))
            for key, value in sorted(rows.items())
        ]
        with self._pool.write(tenant) as connection:
            with _count_edges(connection, tenant, edges):
                changed = insert_rows(connection, "edges", lines, on_conflict=_LINK)
            if changed:
                check_quota(connection, tenant, self._tenant_bytes)
            return changed

    def unlink(self, tenant: str, edges: Sequence[Edge]) -> int:
        rows = [(tenant, node_key(e.source), e.predicate, node_key(e.target)) for e in edges]
        if not rows:
            return 0
        with (
            self._pool.write(tenant) as connection,
            _count_edges(connection, tenant, edges),
            connection.cursor() as cursor,
        ):
            cursor.executemany(_UNLINK, rows)
            return cursor.rowcount

    def has_edges(self, tenant: str) -> bool:
        return bool(self._pool.fetch_first(tenant, _ANY, tenant))

    def edges_touching(
        self, tenant: str, nodes: Sequence[str], *, direction: str = "both", limit: int = 1000
    ) -> list[Edge]:
        check_direction(direction)
        values = (as_text_array(dict.fromkeys(map(node_key, nodes))), tenant, max(limit, 0))
        sides = 1 + (direction == "both")
        rows = self._pool.fetch(tenant, _TOUCHING[direction], values * sides)
        found = sorted(set(rows), key=lambda row: (-row[3], *row[:3], row[4]))
        return [Edge(*row) for row in found]

    def save_fact(self, tenant: str, fact: Fact) -> Fact:
        check_fact(tenant, fact)
        self._tenants.add(tenant)
        with self._pool.write(tenant) as connection:
            lock_counter(connection, tenant, "fact")
            same = _same_fact(connection, tenant, fact)
            if same is None:
                _write_fact(connection, tenant, fact)
                check_quota(connection, tenant, self._tenant_bytes)
            return same or fact

    def amend_fact(self, tenant: str, id: str, change: Callable[[Fact], Fact]) -> Fact | None:
        with self._pool.write(tenant) as connection:
            lock_counter(connection, tenant, "fact")
            return _amend_fact(connection, tenant, _read_fact(connection, tenant, id), change)

    def fact(self, tenant: str, id: str) -> Fact | None:
        rows = self._pool.fetch(tenant, _FACT, (tenant, id))
        return decode(Fact, rows[0][0]) if rows else None

    def facts(self, tenant: str) -> list[Fact]:
        sql = "SELECT id, body FROM millgate.facts WHERE tenant = %s ORDER BY id"
        rows = self._pool.fetch(tenant, sql, (tenant,))
        return decode_all(Fact, rows)

    def forget(self, tenant: str, id: str) -> bool:
        with self._pool.write(tenant) as connection:
            lock_counter(connection, tenant, "fact")
            sql = "DELETE FROM millgate.facts WHERE tenant = %s AND id = %s RETURNING body"
            gone = connection.execute(sql, (tenant, id)).fetchone()
            if gone is None:
                return False
            add_to_counter(connection, tenant, FACT_BYTES, -count_bytes(*gone))
            connection.execute(
                "INSERT INTO millgate.forgotten VALUES (%s, %s, %s)"
                " ON CONFLICT (tenant, id) DO UPDATE SET seq = excluded.seq",
                (tenant, id, next_number(connection, tenant, "fact")),
            )
            return True

    def fact_changes(self, tenant: str, after: int) -> list[FactChange]:
        rows = self._pool.fetch_first(
            tenant,
            "SELECT seq, id, body FROM millgate.facts WHERE tenant = %s AND seq > %s UNION ALL"
            " SELECT seq, id, NULL FROM millgate.forgotten WHERE tenant = %s AND seq > %s"
            " ORDER BY 1",
            *(tenant, after) * 2,
        )
        return [
            FactChange(seq, id, None if body is None else decode_or_skip(Fact, id, body))
            for seq, id, body in rows
        ]

    def secret(self, tenant: str) -> bytes:
        return self.secrets(tenant)[0].key

    def secrets(self, tenant: str) -> list[Secret]:
        check_name("tenant", tenant)
        return self._known_secrets(tenant, self._pool.fetch_first(tenant, _SECRETS, tenant))

    def _known_secrets(self, tenant: str, rows: Sequence[Row]) -> list[Secret]:
        """The secrets of a tenant, the one in use first. A tenant without any has one derived from the store's own."""
        if rows:
            return [Secret(*row) for row in rows]
        key, created = self._secret
        return [Secret(blake2b(tenant.encode(), key=key, digest_size=32).digest(), created)]

    def rotate(self, tenant: str, *, expires: float) -> Secret:
        check_name("tenant", tenant)
        self._tenants.add(tenant)
        fresh = Secret(token_bytes(32), self._clock())
        with self._pool.write(tenant) as connection:
            lock_counter(connection, tenant, "secret")
            rows = connection.execute(_SECRETS, (tenant,)).fetchall()
            first, *_ = self._known_secrets(tenant, rows)
            connection.execute(
                "INSERT INTO millgate.secrets VALUES (%s, 1, %s, %s, NULL) ON CONFLICT DO NOTHING",
                (tenant, first.key, first.created),
            )
            connection.execute(
                "UPDATE millgate.secrets SET expires = %s WHERE tenant = %s AND expires IS NULL",
                (expires, tenant),
            )
            sql = "SELECT max(number) + 1 FROM millgate.secrets WHERE tenant = %s"
            (number,) = fetch_one(connection, sql, (tenant,))
            connection.execute(
                "INSERT INTO millgate.secrets VALUES (%s, %s, %s, %s, NULL)",
                (tenant, number, fresh.key, fresh.created),
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
        self._tenants.add(tenant)
        row = (tenant, review.id, review.status, review.created, encode(review))
        with self._pool.write(tenant, patience_s=patience_s) as connection:
            lock_counter(connection, tenant, "review")
            status = connection.execute(
                "SELECT status FROM millgate.reviews WHERE tenant = %s AND id = %s FOR UPDATE",
                (tenant, review.id),
            ).fetchone()
            if status and status[0] != "pending":
                raise already_decided(review.id, status[0])
            (others,) = fetch_one(
                connection,
                "SELECT count(*) FROM millgate.reviews"
                " WHERE tenant = %s AND status = 'pending' AND id != %s",
                (tenant, review.id),
            )
            if most is not None and others >= most:
                return False
            connection.execute(
                "INSERT INTO millgate.reviews VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status,"
                " created = excluded.created, body = excluded.body",
                row,
            )
            return True

    def review(self, tenant: str, id: str) -> Review | None:
        sql = "SELECT body FROM millgate.reviews WHERE tenant = %s AND id = %s"
        rows = self._pool.fetch(tenant, sql, (tenant, id))
        return decode(Review, rows[0][0]) if rows else None

    def reviews(self, tenant: str, *, status: str | None = None) -> list[Review]:
        only, values = ("", [tenant]) if status is None else (" AND status = %s", [tenant, status])
        sql = f"SELECT id, body FROM millgate.reviews WHERE tenant = %s{only} ORDER BY created, id"
        rows = self._pool.fetch(tenant, sql, values)
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
        with self._pool.write(tenant) as connection:
            moved = connection.execute(
                "UPDATE millgate.reviews SET status = %s, created = %s, body = %s"
                " WHERE tenant = %s AND id = %s AND status = 'pending'",
                (review.status, review.created, encode(review), tenant, review.id),
            )
            if moved.rowcount != 1:
                return False
            lock_counter(connection, tenant, "fact")
            known = _same_fact(connection, tenant, fact) if fact else None
            if fact and known is None:
                _write_fact(connection, tenant, fact)
            for held in (known, *(_read_fact(connection, tenant, id) for id in ids)):
                _amend_fact(connection, tenant, held, amend)
            return True


def _read_fact(connection: Link, tenant: str, id: str) -> Fact | None:
    row = connection.execute(_FACT, (tenant, id)).fetchone()
    return decode(Fact, row[0]) if row else None


def _same_fact(connection: Link, tenant: str, fact: Fact) -> Fact | None:
    """Another fact of the tenant with the same key: one that says the same."""
    sql = "SELECT body FROM millgate.facts WHERE tenant = %s AND key = %s AND id <> %s"
    row = connection.execute(sql, (tenant, _key(fact), fact.id)).fetchone()
    return decode(Fact, row[0]) if row else None


def _amend_fact(
    connection: Link, tenant: str, held: Fact | None, change: Callable[[Fact], Fact]
) -> Fact | None:
    if held is None:
        return None
    now = check_amended(held, change(held))
    _write_fact(connection, tenant, now)
    return now


def _write_fact(connection: Link, tenant: str, fact: Fact) -> None:
    """Write a fact that is new or differs, under the next number of the fact feed."""
    held, body = _read_fact(connection, tenant, fact.id), encode(fact)
    if held == fact:
        return
    grown = count_bytes(body) - (count_bytes(encode(held)) if held else 0)
    add_to_counter(connection, tenant, FACT_BYTES, grown)
    seq = next_number(connection, tenant, "fact")
    connection.execute(
        "INSERT INTO millgate.facts VALUES (%s, %s, %s, %s, %s) ON CONFLICT (tenant, id) DO UPDATE"
        " SET key = excluded.key, seq = excluded.seq, body = excluded.body",
        (tenant, fact.id, _key(fact), seq, body),
    )
    sql = "DELETE FROM millgate.forgotten WHERE tenant = %s AND id = %s"
    connection.execute(sql, (tenant, fact.id))


@contextmanager
def _count_edges(connection: Link, tenant: str, edges: Sequence[Edge]) -> Iterator[None]:
    """Let the counter of edges' bytes follow what the block does to these edges."""
    lock_counter(connection, tenant, EDGE_BYTES)
    ends = [
        list(part)
        for part in zip(
            *{(node_key(e.source), e.predicate, node_key(e.target)) for e in edges}, strict=True
        )
    ]
    if not ends:
        yield
        return
    (before,) = fetch_one(connection, _BYTES_OF_EDGES, (*ends, tenant))
    yield
    (after,) = fetch_one(connection, _BYTES_OF_EDGES, (*ends, tenant))
    add_to_counter(connection, tenant, EDGE_BYTES, after - before)


def _key(fact: Fact) -> bytes:
    return blake2b(fact.key.encode(), digest_size=32).digest()
