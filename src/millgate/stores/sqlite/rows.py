"""Rows: a chunk as a row of the SQLite store, the SQL clauses that find it, and a tenant's counters and quota.

A title or metadata that a chunk shares with its document is stored with the document alone: the chunk's column is NULL.
"""

import sqlite3
from collections.abc import Sequence

import orjson

from millgate.stores.chunk_rows import from_row
from millgate.stores.codec import encode
from millgate.stores.validate import refuse_over_quota
from millgate.types import Chunk

_SHARED = """coalesce({0}, (SELECT d.{0} FROM documents d WHERE d.tenant = chunks.tenant
  AND d.collection = chunks.collection AND d.id = chunks.document), '')"""
COLUMNS = (
    f"id, document, position, source, {_SHARED.format('title')}, {_SHARED.format('metadata')},"
    " admission, text"
)
HERE = "tenant = ? AND collection = ?"
LISTED = "IN (SELECT value FROM json_each(?))"
# All chunks as one row: the columns before the text as JSON with the length of each text, and the texts as one run of
# bytes. Python lets another thread go first with every row that it reads. With rows, a request beside the thread that
# writes traces takes 5 % more CPU, and 64 requests at once 9 % more.
_CHUNKS = f"""SELECT json_group_array(json_array({COLUMNS.removesuffix("text")} length(CAST(text AS BLOB)))),
  CAST(group_concat(text, '') AS BLOB) FROM chunks WHERE {HERE} AND id {LISTED}"""
_AT_ONCE = 100  # chunks a statement, which bounds what it holds in memory twice
_USED = """
SELECT (SELECT coalesce(sum(bytes), 0) FROM sizes WHERE tenant = ?1)
  + coalesce((SELECT record_bytes FROM tenants WHERE tenant = ?1), 0)
"""


def read_chunks(
    connection: sqlite3.Connection, tenant: str, collection: str, ids: Sequence[str]
) -> list[Chunk]:
    """The chunks with these ids, in any order."""
    chunks = []
    for at in range(0, len(ids), _AT_ONCE):
        values = (tenant, collection, encode(ids[at : at + _AT_ONCE]))
        heads, texts = connection.execute(_CHUNKS, values).fetchone()
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


def check_quota(connection: sqlite3.Connection, tenant: str, limit: int | None) -> None:
    """Refuse a write after which a tenant holds more than it may; the transaction takes it back.

    Counted is what a caller sent: ids, titles, metadata and texts of documents, facts and edges, as UTF-8. The check
    ends a write, inside its transaction, so no two writers pass it together.
    """
    if limit is not None:
        (used,) = connection.execute(_USED, (tenant,)).fetchone()
        refuse_over_quota(tenant, int(used), limit)
