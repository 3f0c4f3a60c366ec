"""Chunk rows: a chunk as a row of a table, the same in every store that is a database."""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.stores.codec import decode_metadata, encode
from headgate.types import Chunk

COLUMNS = "id, document, position, source, title, metadata, admission, text"

Row = tuple[Any, ...]


def to_row(chunk: Chunk) -> Row:
    """A chunk as a row of COLUMNS."""
    data = encode(chunk.metadata) if chunk.metadata else ""
    return (chunk.id, chunk.document, chunk.position, chunk.source, chunk.title, data,
            chunk.admission, chunk.text)  # fmt: skip


def from_row(collection: str, row: Sequence[Any]) -> Chunk:
    """The chunk of a row of COLUMNS."""
    id, document, position, source, title, data, admission, text = row
    return Chunk(
        id, text, document, collection, source, title, position, decode_metadata(data), admission
    )


def title_and_text(row: Row) -> tuple[str, str]:
    """The part of a row that attachments are computed from."""
    return row[4], row[7]


def count_chars(rows: Mapping[str, Row]) -> int:
    """Characters of all texts together."""
    return sum(len(row[7]) for row in rows.values())
