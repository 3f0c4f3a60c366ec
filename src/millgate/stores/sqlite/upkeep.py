"""SqliteUpkeep: what operations on a whole store need: its integrity, all its records, and space given back."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from millgate.stores.chunk_rows import Row, from_row
from millgate.stores.codec import decode_metadata, decode_or_skip
from millgate.stores.sql.database import COLUMNS, HERE, SqlPart
from millgate.stores.sqlite.connection import Pool
from millgate.types import Chunk, Document, Edge, Fact, Record, Review

_TENANTS = """
SELECT tenant FROM collections UNION SELECT tenant FROM counters UNION SELECT tenant FROM keys
UNION SELECT tenant FROM spends UNION SELECT tenant FROM reviews UNION SELECT tenant FROM secrets ORDER BY 1
"""


class SqliteUpkeep(SqlPart):
    """For the commands that look after a store; nothing else calls it."""

    _pool: Pool

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._pool.read() as connection:
            return connection.execute(sql, values).fetchall()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement in a transaction of its own; how many rows it changed."""
        with self._pool.write() as connection:
            return connection.execute(sql, values).rowcount

    def integrity(self) -> list[str]:
        """What SQLite finds damaged, line by line; nothing when all is well."""
        return [line for (line,) in self.query("PRAGMA integrity_check(20)") if line != "ok"]

    def vacuum(self) -> None:
        """Rewrite the file without free pages, and empty the write-ahead log."""
        with self._pool.read() as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def tenants(self) -> list[str]:
        """Every tenant that has anything."""
        return [tenant for (tenant,) in self.query(_TENANTS)]

    def records(self, tenant: str | None = None) -> Iterator[Record]:
        """Every document, edge, fact and review of one moment, with its tenant and kind."""
        only, values = ("WHERE tenant = ?", (tenant,)) if tenant else ("", ())
        with self._pool.snapshot() as connection:
            yield from _documents(connection, only, values)
            sql = f"SELECT tenant, source, predicate, target, weight, provenance FROM edges {only}"
            for owner, *edge in connection.execute(sql, values):
                yield owner, "edge", Edge(*edge)
            sql = f"SELECT tenant, id, body FROM facts {only}"
            for owner, id, body in connection.execute(sql, values):
                if fact := decode_or_skip(Fact, id, body):
                    yield owner, "fact", fact
            sql = f"SELECT tenant, id, body FROM reviews {only}"
            for owner, id, body in connection.execute(sql, values):
                if review := decode_or_skip(Review, id, body):
                    yield owner, "review", review


def _documents(
    connection: sqlite3.Connection, only: str, values: Sequence[str]
) -> Iterator[Record]:
    sql = (
        "SELECT tenant, collection, place, id, title, digest, source, metadata FROM documents"
        f" {only} ORDER BY tenant, collection, place"
    )
    parts = f"SELECT {COLUMNS} FROM chunks WHERE {HERE} AND place = ? ORDER BY position"
    for owner, collection, place, id, title, digest, source, data in connection.execute(
        sql, values
    ):
        rows = connection.execute(parts, (owner, collection, place))
        chunks: tuple[Chunk, ...] = tuple(from_row(collection, row) for row in rows)
        yield (
            owner,
            "document",
            Document(
                id, collection, title=title, digest=digest, source=source,
                metadata=decode_metadata(data), chunks=chunks,
            ),
        )  # fmt: skip
