"""PostgresStore: one database, many gateways.

An acknowledged write survives a killed gateway and, as far as the server is set up to keep it, a lost server. Indexes
are derived, kept in each gateway's own folder, and follow the change feed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import time

from psycopg.rows import TupleRow

from millgate.errors import StoreError
from millgate.protocols import Clock
from millgate.stores.postgres.address import Address, parse_address
from millgate.stores.postgres.citus import is_distributed
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.migrations import (
    STEPS,
    migrate,
    owns_tables,
    refuse_newer,
    version,
)
from millgate.stores.postgres.replicas import Replicas
from millgate.stores.postgres.rows import as_text_array, refresh_statistics
from millgate.stores.postgres.shared import KnownTenants, PostgresShared
from millgate.stores.postgres.upkeep import PostgresUpkeep
from millgate.stores.sql.database import EDGE_BYTES, HERE, Link, add_to_counter, fetch_one
from millgate.stores.sql.documents import MARK_S
from millgate.stores.validate import check_name
from millgate.types import Edge, node_key

# Chunks written at once from which the planner's statistics are renewed, so that it sees a large import at once.
# Chosen, not measured.
_BULK = 500
# Marks kept of a collection. Each gateway's index has two, so five hundred gateways may share a collection: chosen,
# not measured, to be more than a deployment has.
_MARKS = 1_000
# the strongest edges of each node, found in the order of an index
_STRONGEST = """
(SELECT e.source, e.predicate, e.target, e.weight, e.provenance FROM unnest(?::text[]) AS node,
LATERAL (SELECT * FROM millgate.edges WHERE tenant = ? AND {}_key = node COLLATE "C"
ORDER BY weight DESC, source, predicate, target LIMIT ?) e)
"""
_BYTES_OF_EDGES = """
SELECT coalesce(sum(octet_length(e.source) + octet_length(e.predicate) + octet_length(e.target)
  + octet_length(e.provenance)), 0)::bigint
FROM unnest(?::text[], ?::text[], ?::text[]) AS n (source, predicate, target)
JOIN millgate.edges e ON e.tenant = ? AND e.source_key = n.source COLLATE "C"
  AND e.predicate = n.predicate COLLATE "C" AND e.target_key = n.target COLLATE "C"
"""
_MARK = """
INSERT INTO millgate.index_marks (tenant, collection, mark, former) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, collection, mark) DO UPDATE SET former = excluded.former, created = excluded.created
"""


class PostgresStore(PostgresUpkeep, PostgresShared):
    """A store in a PostgreSQL database, at a URL such as `postgresql://user:password@host/database`.

    `tenant_bytes` bounds what one tenant may hold.
    Tables are made and brought up to date when it is opened; without `migrates` one that needs it is refused.
    """

    id: str
    """What tells this store from every other."""
    is_distributed: bool
    """Whether its rows lie on the workers of a cluster."""
    _pool: Pool
    _reads: Replicas

    def __init__(
        self,
        address: str | Address,
        *,
        tenant_bytes: int | None = None,
        clock: Clock = time,
        migrates: bool = True,
    ) -> None:
        self.address = parse_address(address) if isinstance(address, str) else address
        self._pool = Pool(self.address)
        self._reads = Replicas(self._pool, self.address)
        self.one_request = self._pool.one_request
        self._tenants = KnownTenants(self._pool)
        self._clock = clock
        self._tenant_bytes = tenant_bytes
        try:
            self._upgrade(migrates=migrates)
        except BaseException:  # the caller gets no store that it could close
            self.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresStore({str(self.address)!r})"

    def close(self) -> None:
        self._reads.close()
        self._pool.close()

    def _note_change(self, tenant: str, collections: Iterable[str], changed: int) -> None:
        self._reads.note_write()
        if changed >= _BULK:
            chunks = max(self.size(tenant, name).chunks for name in collections)
            with self._pool.session() as connection:
                refresh_statistics(connection, chunks, "chunks", "documents", "attachments")

    def index_marks(self, tenant: str, collection: str) -> tuple[str, ...]:
        sql = f"SELECT mark FROM millgate.index_marks WHERE {HERE} ORDER BY created DESC"
        return tuple(mark for (mark,) in self._pool.fetch(tenant, sql, (tenant, collection)))

    def mark_index(self, tenant: str, collection: str, mark: str, *, former: str) -> None:
        """Every gateway has an index of its own: each keeps its last two marks, and the oldest go beyond a thousand."""
        here = (tenant, collection)
        check_name("index mark", mark)
        marks = f"DELETE FROM millgate.index_marks WHERE {HERE} AND mark IN (SELECT {{}} FROM millgate.index_marks"
        with self._pool.write(tenant, durable=False, patience_s=MARK_S) as connection:
            old = f"{marks.format('former')} WHERE {HERE} AND mark = ?)"
            connection.execute(old, (*here, *here, former))
            connection.execute(_MARK, (*here, mark, former))
            oldest = f"{marks.format('mark')} WHERE {HERE} ORDER BY created DESC OFFSET {_MARKS})"
            connection.execute(oldest, here * 2)

    def lease_upkeep(self, seconds: float) -> float | None:
        """The store's clock is when all tenants were pruned last: the gateway that moves it on has the turn."""
        return self._move_clock(seconds)

    def _know(self, tenant: str) -> None:
        self._tenants.add(tenant)

    def _strongest(
        self, tenant: str, nodes: Sequence[str], sides: Sequence[str], limit: int
    ) -> list[TupleRow]:
        values = (as_text_array(nodes), tenant, limit)
        sql = " UNION ".join(map(_STRONGEST.format, sides))
        return self._pool.fetch(tenant, sql, values * len(sides))

    @contextmanager
    def _count_edges(self, link: Link, tenant: str, edges: Sequence[Edge]) -> Iterator[None]:
        link.lock_counter(tenant, EDGE_BYTES)
        keys = {(node_key(e.source), e.predicate, node_key(e.target)) for e in edges}
        values = (*(as_text_array([key[part] for key in keys]) for part in range(3)), tenant)
        (before,) = fetch_one(link, _BYTES_OF_EDGES, values)
        yield
        (after,) = fetch_one(link, _BYTES_OF_EDGES, values)
        add_to_counter(link, tenant, EDGE_BYTES, after - before)

    def _upgrade(self, *, migrates: bool) -> None:
        with self._pool.session() as connection:
            current = version(connection)
            refuse_newer(self.address, current)
            behind = current < len(STEPS)
            if behind and migrates and (not current or owns_tables(connection)):
                migrate(connection, self.address)
            elif behind:
                raise StoreError(
                    f"the store {self.address} has version {current}; this release needs {len(STEPS)}",
                    hint="with the address of the role that owns the tables, run: millgate store migrate",
                )
            # neither ever changes, so a cluster need not keep them beside the rows of a tenant
            row = fetch_one(connection, "SELECT id, secret, created FROM millgate.store")
            self.id, self._secret = row[0], (row[1], row[2])
            self.is_distributed = connection.is_citus and is_distributed(connection)
