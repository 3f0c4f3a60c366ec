"""SqliteUpkeep: what operations on a whole store need: its integrity, all its records, and space given back."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from millgate.stores.chunk_rows import from_row
from millgate.stores.codec import decode_metadata
from millgate.stores.sql.database import COLUMNS, HERE
from millgate.stores.sql.store import SqlStore
from millgate.stores.sqlite.connection import Connection, Pool
from millgate.types import Document, Record

_TENANTS = """
SELECT tenant FROM collections UNION SELECT tenant FROM counters UNION SELECT tenant FROM keys
UNION SELECT tenant FROM spends UNION SELECT tenant FROM reviews UNION SELECT tenant FROM secrets ORDER BY 1
"""


class SqliteUpkeep(SqlStore):
    """For the commands that look after a store; nothing else calls it."""

    path: Path
    _pool: Pool

    def tables(self) -> dict[str, int]:
        files = ((file.name, file.stat().st_size) for file in self.path.parent.glob("millgate.db*"))
        return dict(sorted(files, key=lambda item: -item[1]))

    def server(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def integrity(self) -> list[str]:
        """What SQLite finds damaged, line by line; nothing when all is well."""
        return [line for (line,) in self.query("", "PRAGMA integrity_check(20)") if line != "ok"]

    def vacuum(self) -> None:
        """Rewrite the file without free pages, and empty the write-ahead log."""
        with self._pool.read() as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def tenants(self) -> list[str]:
        """Every tenant that has anything."""
        return [tenant for (tenant,) in self.query("", _TENANTS)]

    def records(self, tenant: str | None = None) -> Iterator[Record]:
        """Every document, edge, fact and review of one moment, with its tenant and kind."""
        with self._pool.snapshot() as connection:
            for owner in self.tenants() if tenant is None else [tenant]:
                for document in _documents(connection, owner):
                    yield owner, "document", document
                for kind, record in self._read_records(owner, connection.execute):
                    yield owner, kind, record


_DOCUMENTS = """
SELECT collection, place, id, title, digest, source, metadata FROM documents WHERE tenant = ?
ORDER BY collection, place
"""
_PARTS = f"SELECT {COLUMNS} FROM chunks WHERE {HERE} AND place = ? ORDER BY position"


def _documents(connection: Connection, tenant: str) -> Iterator[Document]:
    documents = connection.execute(_DOCUMENTS, (tenant,))
    for collection, place, id, title, digest, source, data in documents:
        rows = connection.execute(_PARTS, (tenant, collection, place))
        chunks = tuple(from_row(collection, row) for row in rows)
        yield Document(
            id, collection, title=title, digest=digest, source=source,
            metadata=decode_metadata(data), chunks=chunks,
        )  # fmt: skip
