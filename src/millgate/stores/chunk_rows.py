"""Chunk rows: a chunk as a row of a table, the same in every store that is a database.

A row has the chunk's id, document, position, source, title, metadata, admission and text, in this order.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from millgate.stores.codec import decode_metadata, encode
from millgate.types import Chunk, Document

Row = tuple[Any, ...]


class Head(NamedTuple):
    """What a document says of all its chunks: its title, and its metadata as stored."""

    title: str
    metadata: str

    @classmethod
    def of(cls, document: Document) -> "Head":
        return cls(document.title, encode(document.metadata) if document.metadata else "")


def to_rows(document: Document, head: Head) -> Iterator[Row]:
    """The chunks of a document as rows."""
    for chunk in document.chunks:
        if chunk.metadata is document.metadata:
            data = head.metadata
        else:
            data = encode(chunk.metadata) if chunk.metadata else ""
        yield (chunk.id, chunk.document, chunk.position, chunk.source, chunk.title, data,
               chunk.admission, chunk.text)  # fmt: skip


class Difference(NamedTuple):
    """What putting documents changes: the rows they have now, and ids of chunks that go, that are written, and whose
    attachments go.
    """

    fresh: Mapping[str, Row]
    stale: Sequence[str]
    changed: Sequence[str]
    outdated: Sequence[str]
    chars: int
    """By how many characters the collection grows."""


def compare(
    documents: Mapping[str, Document], heads: Mapping[str, Head], former: Mapping[str, Row]
) -> Difference:
    """Compare documents with the rows that the store holds of them, row by row."""
    fresh = {row[0]: row for id, d in documents.items() for row in to_rows(d, heads[id])}
    changed = [id for id, row in fresh.items() if former.get(id) != row]
    return Difference(
        fresh=fresh,
        stale=[id for id in former if id not in fresh],
        changed=changed,
        outdated=[
            id
            for id in changed
            if id in former and title_and_text(former[id]) != title_and_text(fresh[id])
        ],
        chars=count_chars(fresh) - count_chars(former),
    )


def own_part(row: Row, head: Head) -> tuple[str | None, str | None, int]:
    """The title and metadata that are stored with a chunk, and the bytes it takes; None for what its document has."""
    title = None if row[4] and row[4] == head.title else row[4]
    data = None if row[5] and row[5] == head.metadata else row[5]
    return title, data, count_bytes(row[0], title or "", data or "", row[7])


def count_bytes(*texts: str) -> int:
    """What texts take as UTF-8."""
    joined = "".join(texts)
    return len(joined) if joined.isascii() else len(joined.encode())


def from_row(collection: str, row: Sequence[Any]) -> Chunk:
    """The chunk of a row."""
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
