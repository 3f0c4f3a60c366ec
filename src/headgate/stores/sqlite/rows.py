"""Rows: how a chunk lies in the SQLite store, and the clauses that find it there."""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.stores.codec import encode, metadata
from headgate.types import Chunk

COLUMNS = "id, document, position, source, title, metadata, admission, text"
HERE = "tenant = ? AND collection = ?"
LISTED = "IN (SELECT value FROM json_each(?))"

Row = tuple[Any, ...]


def row(chunk: Chunk) -> Row:
    """A chunk as COLUMNS has it."""
    data = encode(chunk.metadata) if chunk.metadata else ""
    return (chunk.id, chunk.document, chunk.position, chunk.source, chunk.title, data,
            chunk.admission, chunk.text)  # fmt: skip


def chunk(collection: str, row: Sequence[Any]) -> Chunk:
    """The chunk that lies in a row of COLUMNS."""
    id, document, position, source, title, data, admission, text = row
    return Chunk(id, text, document, collection, source, title, position, metadata(data), admission)


def said(row: Row) -> tuple[str, str]:
    """What attachments are computed from: title and text."""
    return row[4], row[7]


def chars(rows: Mapping[str, Row]) -> int:
    """Characters of all texts together."""
    return sum(len(row[7]) for row in rows.values())
