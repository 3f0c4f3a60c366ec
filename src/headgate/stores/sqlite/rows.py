"""Rows: a chunk as a row of the SQLite store, the SQL clauses that find it, and the tenants' counters.

A title or metadata that a chunk shares with its document is stored with the document alone: the chunk's column is NULL.
"""

import sqlite3
from collections.abc import Sequence

from headgate.stores.chunk_rows import from_row
from headgate.stores.codec import encode
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
