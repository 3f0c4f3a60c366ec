"""Rows: a chunk as a row of the SQLite store, the SQL clauses that find it, and the tenants' counters.

A title or metadata that a chunk shares with its document is stored with the document alone: the chunk's column is NULL.
"""

import sqlite3

from headgate.stores.chunk_rows import (
    Head,
    Row,
    compare,
    count_bytes,
    count_chars,
    from_row,
    own_part,
)

__all__ = [
    "COLUMNS",
    "HERE",
    "LISTED",
    "Head",
    "Row",
    "compare",
    "count_bytes",
    "count_chars",
    "from_row",
    "next_number",
    "own_part",
]

_SHARED = """coalesce({0}, (SELECT d.{0} FROM documents d WHERE d.tenant = chunks.tenant
  AND d.collection = chunks.collection AND d.id = chunks.document), '')"""
COLUMNS = (
    f"id, document, position, source, {_SHARED.format('title')}, {_SHARED.format('metadata')},"
    " admission, text"
)
HERE = "tenant = ? AND collection = ?"
LISTED = "IN (SELECT value FROM json_each(?))"


def next_number(connection: sqlite3.Connection, tenant: str, counter: str) -> int:
    """The next number of one of the tenant's counters."""
    connection.execute("INSERT OR IGNORE INTO tenants (tenant) VALUES (?)", (tenant,))
    sql = f"UPDATE tenants SET {counter} = {counter} + 1 WHERE tenant = ?"
    connection.execute(sql, (tenant,))
    sql = f"SELECT {counter} FROM tenants WHERE tenant = ?"
    (number,) = connection.execute(sql, (tenant,)).fetchone()
    return int(number)
