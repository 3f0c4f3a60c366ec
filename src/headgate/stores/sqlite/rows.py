"""Rows: a chunk as a row of the SQLite store, the SQL clauses that find it, and a tenant's counters and quota.

A title or metadata that a chunk shares with its document is stored with the document alone: the chunk's column is NULL.
"""

import sqlite3
from collections.abc import Sequence

from headgate.stores.chunk_rows import from_row
from headgate.stores.codec import encode
from headgate.stores.validate import refuse_over_quota
from headgate.types import Chunk

_SHARED = """coalesce({0}, (SELECT d.{0} FROM documents d WHERE d.tenant = chunks.tenant
  AND d.collection = chunks.collection AND d.id = chunks.document), '')"""
COLUMNS = (
    f"id, document, position, source, {_SHARED.format('title')}, {_SHARED.format('metadata')},"
    " admission, text"
)
HERE = "tenant = ? AND collection = ?"
LISTED = "IN (SELECT value FROM json_each(?))"
_CHUNKS = f"SELECT {COLUMNS} FROM chunks WHERE {HERE} AND id {LISTED}"
_USED = """
SELECT (SELECT coalesce(sum(bytes), 0) FROM sizes WHERE tenant = ?1)
  + coalesce((SELECT record_bytes FROM tenants WHERE tenant = ?1), 0)
"""


def read_chunks(
    connection: sqlite3.Connection, tenant: str, collection: str, ids: Sequence[str]
) -> list[Chunk]:
    """The chunks with these ids, in any order."""
    rows = connection.execute(_CHUNKS, (tenant, collection, encode(ids))).fetchall()
    return [from_row(collection, row) for row in rows]


def next_number(connection: sqlite3.Connection, tenant: str, counter: str, count: int = 1) -> int:
    """The last of the next numbers of one of the tenant's counters."""
    connection.execute("INSERT OR IGNORE INTO tenants (tenant) VALUES (?)", (tenant,))
    sql = f"UPDATE tenants SET {counter} = {counter} + ? WHERE tenant = ?"
    connection.execute(sql, (count, tenant))
    sql = f"SELECT {counter} FROM tenants WHERE tenant = ?"
    (number,) = connection.execute(sql, (tenant,)).fetchone()
    return int(number)


def check_quota(connection: sqlite3.Connection, tenant: str, limit: int | None) -> None:
    """Refuse a write after which a tenant holds more than it may; the transaction takes it back.

    Counted is what a caller sent: ids, titles, metadata and texts of documents, facts and edges, as UTF-8. The check
    ends a write, inside its transaction, so no two writers pass it together.
    """
    if limit is not None:
        (used,) = connection.execute(_USED, (tenant,)).fetchone()
        refuse_over_quota(tenant, int(used), limit)
