"""Rows: a chunk as a row of the SQLite store, the SQL clauses that find it, and the tenants' counters.

A title or metadata that a chunk shares with its document is stored with the document alone: the chunk's column is NULL.
"""

import sqlite3
from collections.abc import Iterator, Sequence

import orjson

from headgate.stores.chunk_rows import Row, from_row
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
_CHUNKS = f"""SELECT json_group_array(json_array({COLUMNS.removesuffix("text")} length(CAST(text AS BLOB)))),
  CAST(group_concat(text, '') AS BLOB) FROM chunks WHERE {HERE} AND id {LISTED}"""
_AT_ONCE = 100


def read_listed(
    connection: sqlite3.Connection, sql: str, *here: str, ids: Sequence[str]
) -> Iterator[Row]:
    """What a query that makes one row says of these ids, a hundred at a time.

    Python lets another thread go first with every row it reads, and a request reads hundreds of chunks.
    """
    for at in range(0, len(ids), _AT_ONCE):
        values = (*here, encode(ids[at : at + _AT_ONCE]))
        yield connection.execute(sql, values).fetchone()


def read_chunks(
    connection: sqlite3.Connection, tenant: str, collection: str, ids: Sequence[str]
) -> list[Chunk]:
    """The chunks with these ids, in any order.

    Their texts come as one run of bytes, with the length of each: as JSON they would take twice as long.
    """
    chunks = []
    for heads, texts in read_listed(connection, _CHUNKS, tenant, collection, ids=ids):
        begin = 0
        for *head, length in orjson.loads(heads):
            end = begin + length
            chunks.append(from_row(collection, (*head, str(texts[begin:end], "utf-8"))))
            begin = end
    return chunks


def next_number(connection: sqlite3.Connection, tenant: str, counter: str, count: int = 1) -> int:
    """The last of the next numbers of one of the tenant's counters."""
    connection.execute("INSERT OR IGNORE INTO tenants (tenant) VALUES (?)", (tenant,))
    sql = f"UPDATE tenants SET {counter} = {counter} + ? WHERE tenant = ?"
    connection.execute(sql, (count, tenant))
    sql = f"SELECT {counter} FROM tenants WHERE tenant = ?"
    (number,) = connection.execute(sql, (tenant,)).fetchone()
    return int(number)
