"""PostgresUpkeep: what operations on a whole store need: its tenants, all its records, its faults and its sizes."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby
from operator import itemgetter

from millgate.stores.chunk_rows import Row, from_row
from millgate.stores.codec import decode_metadata
from millgate.stores.postgres.address import Address
from millgate.stores.postgres.citus import has_citus, read_layout, unreachable_workers
from millgate.stores.postgres.connection import LOGGER, Connection, Pool
from millgate.stores.postgres.rows import spell
from millgate.stores.postgres.shared import KnownTenants
from millgate.stores.sql.database import fetch_one
from millgate.stores.sql.records import SqlRecords
from millgate.types import Document, Record

_PAGE = 2_000  # rows that a long read fetches at a time
_DOCUMENTS = """
SELECT d.collection, d.id, d.title, d.digest, d.source, d.metadata,
  c.id, c.document, c.position, c.source, c.title, c.metadata, c.admission, c.text
FROM millgate.documents d LEFT JOIN millgate.chunks c
  ON c.tenant = d.tenant AND c.collection = d.collection AND c.place = d.place
WHERE d.tenant = %s ORDER BY d.collection, d.place, c.position
"""
_COUNTED = """
SELECT c.collection, c.documents, c.chunks, c.chars, c.bytes,
  d.documents, k.chunks, k.chars, d.bytes + k.bytes, k.seq > c.seq
FROM millgate.collections c,
LATERAL (SELECT count(*) AS documents, coalesce(sum(bytes), 0)::bigint AS bytes FROM millgate.documents
  WHERE tenant = %s AND collection = c.collection) d,
LATERAL (SELECT count(*) AS chunks, coalesce(sum(chars), 0)::bigint AS chars,
  coalesce(sum(bytes), 0)::bigint AS bytes, coalesce(max(seq), 0) AS seq FROM millgate.chunks
  WHERE tenant = %s AND collection = c.collection) k
WHERE c.tenant = %s ORDER BY c.collection
"""
_RECOUNT = """
UPDATE millgate.collections SET documents = %s, chunks = %s, chars = %s, bytes = %s
WHERE tenant = %s AND collection = %s
"""
_ABOVE_POLICIES = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
_OWNS_UNFORCED = """
SELECT EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = 'millgate'::regnamespace AND relrowsecurity
  AND NOT relforcerowsecurity AND pg_has_role(relowner, 'USAGE'))
"""
_TABLES = """
SELECT relname, pg_total_relation_size(oid){} FROM pg_class
WHERE relnamespace = 'millgate'::regnamespace AND relkind IN ('r', 'p') ORDER BY 2 DESC, 1
"""
_SHARDS = """ + coalesce((SELECT citus_total_relation_size(oid, false) FROM pg_dist_partition
  WHERE logicalrelid = oid), 0)"""


class PostgresUpkeep(SqlRecords):
    """For the commands that look after a store; nothing else calls it."""

    address: Address
    is_distributed: bool
    _pool: Pool
    _tenants: KnownTenants

    def session(self) -> AbstractContextManager[Connection]:
        """A connection outside any transaction."""
        return self._pool.session()

    def tenants(self) -> list[str]:
        """Every tenant that ever wrote anything."""
        return self._tenants.names()

    def query(self, tenant: str, sql: str, values: Sequence[object] = ()) -> list[Row]:
        return self._pool.fetch(tenant, sql, values)

    def execute(self, tenant: str, sql: str, values: Sequence[object] = ()) -> int:
        """Run a statement for a tenant; how many rows it changed."""
        with self._pool.write(tenant) as connection:
            return connection.execute(sql, values).rowcount

    def records(self, tenant: str | None = None) -> Iterator[Record]:
        """Every document, edge, fact and review, with its tenant and kind; each tenant's of one moment."""
        for owner in self.tenants() if tenant is None else [tenant]:
            with self._pool.read(owner) as connection:
                for document in _documents(_pages(connection, _DOCUMENTS, (owner,))):
                    yield owner, "document", document
                for kind, record in self._read_records(owner, partial(_pages, connection)):
                    yield owner, kind, record

    def compare_sizes(self, tenant: str) -> list[Row]:
        """Of each collection its name, its sizes as noted and as they are, and whether its feed is behind."""
        return self.query(tenant, _COUNTED, (tenant, tenant, tenant))

    def note_sizes(self, tenant: str, collection: str, sizes: Sequence[int]) -> None:
        """Write the four sizes of a collection."""
        self.execute(tenant, _RECOUNT, (*sizes, tenant, collection))

    def policy_advice(self) -> str:
        """What to do if the role of this store sees the rows of all tenants, whatever their policies say; else ""."""
        with self._pool.session() as connection:
            (above,) = fetch_one(connection, _ABOVE_POLICIES)
            (owner,) = fetch_one(connection, _OWNS_UNFORCED)
        if above:
            return "use a role without SUPERUSER and BYPASSRLS"
        # the owner of distributed tables stands above their policies, since their shards could not move else
        return "let gateways use another role than the owner of the tables: millgate store migrate --role NAME" if owner else ""  # fmt: skip

    def local_tables(self) -> tuple[str, ...]:
        """The tables that a server with Citus has not distributed; none on another server."""
        with self._pool.session() as connection:
            if not has_citus(connection):
                return ()
            return read_layout(connection, self.address).local

    def unreachable_workers(self) -> list[str]:
        """The servers of a cluster that do not answer, as host:port."""
        if not self.is_distributed:
            return []
        with self._pool.session(patience_s=self.address.timeout_s) as connection:
            away = unreachable_workers(connection)
        if away:
            LOGGER.warning("workers that cannot be reached: %s", ", ".join(away))
        return away

    def ping(self) -> None:
        """Ask the server that all calls go through whether it can serve; an error if it cannot."""
        with self._pool.directory() as connection:
            connection.execute("SELECT id FROM millgate.store")

    def tables(self) -> dict[str, int]:
        """Each table with its bytes on disk, indexes included; the largest first."""
        with self._pool.session() as connection:
            (sharded,) = fetch_one(connection, "SELECT to_regclass('pg_dist_partition')")
            return dict(connection.execute(_TABLES.format(_SHARDS if sharded else "")).fetchall())

    def disk_bytes(self) -> int:
        return sum(self.tables().values())

    def server(self) -> str:
        """The version of the server and the extensions that the store can use."""
        with self._pool.session() as connection:
            version = connection.info.parameter_status("server_version") or ""
            rows = connection.execute(
                "SELECT extname || ' ' || extversion FROM pg_extension"
                " WHERE extname = ANY(%s) ORDER BY 1",
                (["vector", "citus", "pg_textsearch", "pg_search"],),
            ).fetchall()
        return ", ".join([f"PostgreSQL {version.split(' ')[0]}", *(name for (name,) in rows)])


def _pages(connection: Connection, sql: str, values: Sequence[str]) -> Iterator[Row]:
    """The rows of a long read, some at a time."""
    with connection.cursor(name="records") as cursor:
        cursor.itersize = _PAGE
        yield from cursor.execute(spell(sql), values)


def _documents(rows: Iterable[Row]) -> Iterator[Document]:
    for head, lines in groupby(rows, key=itemgetter(slice(0, 6))):
        collection, id, title, digest, source, data = head
        chunks = tuple(from_row(collection, row[6:]) for row in lines if row[6] is not None)
        yield Document(
            id, collection, title=title, digest=digest, source=source,
            metadata=decode_metadata(data), chunks=chunks,
        )  # fmt: skip
