"""SqlRecords: edges, facts, secrets and reviews.

Records are kept as JSON beside the few columns that queries use. A writer of a tenant's facts, reviews or secrets holds
the counter of that kind until the commit, so that what it looked up still holds when it writes, and the fact feed has
no gaps. A tenant's first secret is derived from the store's own, so that reading never has to write.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from secrets import token_bytes

from millgate.stores.chunk_rows import Row, count_bytes
from millgate.stores.codec import decode, decode_all, decode_or_skip, encode
from millgate.stores.sql.database import (
    FACT_BYTES,
    Link,
    SqlPart,
    add_to_counter,
    check_quota,
    fetch_one,
    hash_key,
)
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
DELETE FROM millgate.edges WHERE tenant = ? AND source_key = ? AND predicate = ? AND target_key = ?
"""
_ANY = "SELECT 1 FROM millgate.edges WHERE tenant = ? LIMIT 1"
_FACT = "SELECT body FROM millgate.facts WHERE tenant = ? AND id = ?"
# the key is written only if it changes: of facts that an early release kept twice, the second has another one
_SET_FACT = """
INSERT INTO millgate.facts AS f (tenant, id, key, seq, body) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET key = CASE WHEN ? THEN f.key ELSE excluded.key END,
seq = excluded.seq, body = excluded.body
"""
_CHANGED_FACTS = """
SELECT seq, id, body FROM millgate.facts WHERE tenant = ? AND seq > ?
UNION ALL SELECT seq, id, NULL FROM millgate.forgotten WHERE tenant = ? AND seq > ? ORDER BY 1
"""
_SECRETS = (
    "SELECT key, created, expires FROM millgate.secrets WHERE tenant = ? ORDER BY number DESC"
)
_SET_REVIEW = """
ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, created = excluded.created, body = excluded.body
"""
_DECIDE = """
UPDATE millgate.reviews SET status = ?, created = ?, body = ? WHERE tenant = ? AND id = ? AND status = 'pending'
"""


class SqlRecords(SqlPart):
    """Everything a store keeps besides documents, traces and API keys."""

    _secret: tuple[bytes, float]
    """The store's own, and when it was made."""

    @abstractmethod
    def _strongest(
        self, tenant: str, nodes: Sequence[str], sides: Sequence[str], limit: int
    ) -> Iterable[Row]:
        """The strongest edges of each node on these sides ("source", "target")."""

    @abstractmethod
    def _count_edges(
        self, link: Link, tenant: str, edges: Sequence[Edge]
    ) -> AbstractContextManager[None]:
        """Let the counter of edges' bytes follow what the block does to these edges."""

    def link(self, tenant: str, edges: Sequence[Edge]) -> int:
        check_edges(tenant, edges)
        self._know(tenant)
        rows = {(e.source, e.predicate, e.target): (e.weight, e.provenance) for e in edges}
        lines = [
            (tenant, *key, *value, node_key(key[0]), node_key(key[2]))
            for key, value in sorted(rows.items())
        ]
        with self._pool.write(tenant) as link:
            with self._count_edges(link, tenant, edges):
                changed = link.insert("edges", lines, on_conflict=_LINK)
            if changed:
                check_quota(link, tenant, self._tenant_bytes)
            return changed

    def unlink(self, tenant: str, edges: Sequence[Edge]) -> int:
        rows = [(tenant, node_key(e.source), e.predicate, node_key(e.target)) for e in edges]
        if not rows:
            return 0
        with self._pool.write(tenant) as link, self._count_edges(link, tenant, edges):
            return link.run_many(_UNLINK, rows)

    def has_edges(self, tenant: str) -> bool:
        return bool(self._pool.fetch_first(tenant, _ANY, tenant))

    def edges_touching(
        self, tenant: str, nodes: Sequence[str], *, direction: str = "both", limit: int = 1000
    ) -> list[Edge]:
        check_direction(direction)
        names = list(dict.fromkeys(map(node_key, nodes)))
        sides = [s for d, s in (("out", "source"), ("in", "target")) if direction in (d, "both")]
        found = set(self._strongest(tenant, names, sides, max(limit, 0)))
        return [Edge(*row) for row in sorted(found, key=lambda row: (-row[3], *row[:3], row[4]))]

    def save_fact(self, tenant: str, fact: Fact) -> Fact:
        check_fact(tenant, fact)
        self._know(tenant)
        with self._pool.write(tenant) as link:
            link.lock_counter(tenant, "fact")
            same = _same_fact(link, tenant, fact)
            if same is None:
                _write_fact(link, tenant, fact)
                check_quota(link, tenant, self._tenant_bytes)
            return same or fact

    def amend_fact(self, tenant: str, id: str, change: Callable[[Fact], Fact]) -> Fact | None:
        with self._pool.write(tenant) as link:
            link.lock_counter(tenant, "fact")
            return _amend_fact(link, tenant, _read_fact(link, tenant, id), change)

    def fact(self, tenant: str, id: str) -> Fact | None:
        rows = self._pool.fetch(tenant, _FACT, (tenant, id))
        return decode(Fact, rows[0][0]) if rows else None

    def facts(self, tenant: str) -> list[Fact]:
        sql = "SELECT id, body FROM millgate.facts WHERE tenant = ? ORDER BY id"
        return decode_all(Fact, self._pool.fetch(tenant, sql, (tenant,)))

    def forget(self, tenant: str, id: str) -> bool:
        with self._pool.write(tenant) as link:
            link.lock_counter(tenant, "fact")
            sql = "DELETE FROM millgate.facts WHERE tenant = ? AND id = ? RETURNING body"
            gone = link.execute(sql, (tenant, id)).fetchall()
            for (body,) in gone:
                add_to_counter(link, tenant, FACT_BYTES, -count_bytes(body))
                row = (tenant, id, add_to_counter(link, tenant, "fact"))
                on_conflict = "ON CONFLICT (tenant, id) DO UPDATE SET seq = excluded.seq"
                link.insert("forgotten", [row], on_conflict=on_conflict)
            return bool(gone)

    def fact_changes(self, tenant: str, after: int) -> list[FactChange]:
        rows = self._pool.fetch_first(tenant, _CHANGED_FACTS, *(tenant, after) * 2)
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
        self._know(tenant)
        fresh = Secret(token_bytes(32), self._clock())
        with self._pool.write(tenant) as link:
            link.lock_counter(tenant, "secret")
            rows = link.execute(_SECRETS, (tenant,)).fetchall()
            former, *older = self._known_secrets(tenant, rows)
            self._replace_secrets(
                link, tenant, [fresh, Secret(former.key, former.created, expires), *older]
            )
        return fresh

    def put_secrets(self, tenant: str, secrets: Sequence[Secret]) -> None:
        """Replace a tenant's secrets by these, the one in use first."""
        self._know(tenant)
        with self._pool.write(tenant) as link:
            self._replace_secrets(link, tenant, secrets)

    def _read_records(
        self, tenant: str, read: Callable[[str, Sequence[str]], Iterable[Row]]
    ) -> Iterator[tuple[str, Edge | Fact | Review]]:
        """Every edge, fact and review of a tenant, with its kind; `read` gives the rows of a statement."""
        columns = "source, predicate, target, weight, provenance"
        for row in read(f"SELECT {columns} FROM millgate.edges WHERE tenant = ?", (tenant,)):
            yield "edge", Edge(*row)
        kinds: tuple[tuple[str, type[Fact | Review]], ...] = ("fact", Fact), ("review", Review)
        for name, kind in kinds:
            sql = f"SELECT id, body FROM millgate.{name}s WHERE tenant = ?"
            for id, body in read(sql, (tenant,)):
                if (found := decode_or_skip(kind, id, body)) is not None:
                    yield name, found

    def _replace_secrets(self, link: Link, tenant: str, secrets: Sequence[Secret]) -> None:
        link.execute("DELETE FROM millgate.secrets WHERE tenant = ?", (tenant,))
        rows = [
            (tenant, number, secret.key, secret.created, secret.expires)
            for number, secret in enumerate(reversed(secrets), 1)
        ]
        link.insert("secrets", rows)

    def save_review(
        self,
        tenant: str,
        review: Review,
        *,
        most: int | None = None,
        patience_s: float | None = None,
    ) -> bool:
        check_review(tenant, review)
        self._know(tenant)
        row = (tenant, review.id, review.status, review.created, encode(review))
        with self._pool.write(tenant, patience_s=patience_s) as link:
            link.lock_counter(tenant, "review")
            sql = "SELECT status FROM millgate.reviews WHERE tenant = ? AND id = ? FOR UPDATE"
            status = link.execute(sql, (tenant, review.id)).fetchone()
            if status and status[0] != "pending":
                raise already_decided(review.id, status[0])
            (others,) = fetch_one(
                link,
                "SELECT count(*) FROM millgate.reviews"
                " WHERE tenant = ? AND status = 'pending' AND id <> ?",
                (tenant, review.id),
            )
            if most is not None and others >= most:
                return False
            link.insert("reviews", [row], on_conflict=_SET_REVIEW)
            return True

    def review(self, tenant: str, id: str) -> Review | None:
        sql = "SELECT body FROM millgate.reviews WHERE tenant = ? AND id = ?"
        rows = self._pool.fetch(tenant, sql, (tenant, id))
        return decode(Review, rows[0][0]) if rows else None

    def reviews(self, tenant: str, *, status: str | None = None) -> list[Review]:
        only, values = ("", [tenant]) if status is None else (" AND status = ?", [tenant, status])
        sql = f"SELECT id, body FROM millgate.reviews WHERE tenant = ?{only} ORDER BY created, id"
        return decode_all(Review, self._pool.fetch(tenant, sql, values))

    def decide(
        self,
        tenant: str,
        review: Review,
        *,
        fact: Fact | None = None,
        ids: Sequence[str] = (),
        amend: Callable[[Fact], Fact] = lambda fact: fact,
    ) -> bool:
        with self._pool.write(tenant) as link:
            row = (review.status, review.created, encode(review), tenant, review.id)
            if link.execute(_DECIDE, row).rowcount != 1:
                return False
            link.lock_counter(tenant, "fact")
            known = _same_fact(link, tenant, fact) if fact else None
            if fact and known is None:
                _write_fact(link, tenant, fact)
            for held in (known, *(_read_fact(link, tenant, id) for id in ids)):
                _amend_fact(link, tenant, held, amend)
            return True


def _read_fact(link: Link, tenant: str, id: str) -> Fact | None:
    row = link.execute(_FACT, (tenant, id)).fetchone()
    return decode(Fact, row[0]) if row else None


def _same_fact(link: Link, tenant: str, fact: Fact) -> Fact | None:
    """Another fact of the tenant with the same key: one that says the same."""
    sql = "SELECT body FROM millgate.facts WHERE tenant = ? AND key = ? AND id <> ?"
    row = link.execute(sql, (tenant, hash_key(fact.key), fact.id)).fetchone()
    return decode(Fact, row[0]) if row else None


def _amend_fact(
    link: Link, tenant: str, held: Fact | None, change: Callable[[Fact], Fact]
) -> Fact | None:
    if held is None:
        return None
    now = check_amended(held, change(held))
    _write_fact(link, tenant, now)
    return now


def _write_fact(link: Link, tenant: str, fact: Fact) -> None:
    """Write a fact that is new or differs, under the next number of the fact feed."""
    row, body = link.execute(_FACT, (tenant, fact.id)).fetchone() or (), encode(fact)
    held = decode(Fact, row[0]) if row else None
    if held == fact:
        return
    add_to_counter(link, tenant, FACT_BYTES, count_bytes(body) - count_bytes(*row))
    seq = add_to_counter(link, tenant, "fact")
    keeps_key = held is not None and held.key == fact.key
    link.execute(_SET_FACT, (tenant, fact.id, hash_key(fact.key), seq, body, keeps_key))
    sql = "DELETE FROM millgate.forgotten WHERE tenant = ? AND id = ?"
    link.execute(sql, (tenant, fact.id))
