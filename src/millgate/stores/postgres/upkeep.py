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
from millgate.stores.sql.store import SqlStore
from millgate.types import Document, Record

_PAGE = 2_000  # rows that a long read fetches at a time
_DOCUMENTS = """
SELECT d.collection, d.id, d.title, d.digest, d.source, d.metadata,
  c.id, c.document, c.position, c.source, c.title, c.metadata, c.admission, c.text
FROM millgate.documents d LEFT JOIN millgate.chunks c
  ON c.tenant = d.tenant AND c.collection = d.collection AND c.place = d.place
WHERE d.tenant = %s ORDER BY d.collection, d.place, c.position
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


class PostgresUpkeep(SqlStore):
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

    def records(self, tenant: str | None = None) -> Iterator[Record]:
        for owner in self.tenants() if tenant is None else [tenant]:
            with self._pool.read(owner) as connection:
                for document in _documents(_pages(connection, _DOCUMENTS, (owner,))):
                    yield owner, "document", document
                for kind, record in self._read_records(owner, partial(_pages, connection)):
                    yield owner, kind, record

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
        with self._pool.session() as connection:
            (sharded,) = fetch_one(connection, "SELECT to_regclass('pg_dist_partition')")
            return dict(connection.execute(_TABLES.format(_SHARDS if sharded else "")).fetchall())

    def server(self) -> str:
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
