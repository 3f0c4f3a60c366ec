"""Chunk rows: a chunk as a row of a table, the same in every store that is a database.

A row has the chunk's id, document, position, source, title, metadata, admission and text, in this order.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from millgate.stores.codec import decode_metadata, encode
from millgate.types import Chunk, Document

Row = tuple[Any, ...]


def encode_metadata(metadata: Mapping[str, Any]) -> str:
    """Metadata as it is stored: JSON, and an empty text for none."""
    return encode(metadata) if metadata else ""


def to_rows(document: Document) -> Iterator[Row]:
    """The chunks of a document as rows. Most share its metadata, which is encoded once."""
    shared = encode_metadata(document.metadata)
    for chunk in document.chunks:
        is_shared = chunk.metadata is document.metadata
        yield (chunk.id, chunk.document, chunk.position, chunk.source, chunk.title,
               shared if is_shared else encode_metadata(chunk.metadata),
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


def compare(documents: Mapping[str, Document], former: Mapping[str, Row]) -> Difference:
    """Compare documents with the rows that the store holds of them, row by row."""
    fresh = {row[0]: row for document in documents.values() for row in to_rows(document)}
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
