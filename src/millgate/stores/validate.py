"""Validate: what every store checks before it writes, and the errors it refuses with.

Documents come out grouped by collection. Of two documents with one id the last stands, each chunk names its
document and collection, positions rise, and every text can be written as UTF-8.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite

from millgate.errors import InputError, LimitError, QuotaError
from millgate.stores.codec import encode
from millgate.types import (
    Attachment,
    Chunk,
    Document,
    Edge,
    Fact,
    Key,
    Review,
    Spend,
    SpendScope,
)
from millgate.types.check import check_length
from millgate.types.lengths import (
    CHUNK_CHARS,
    LABEL_CHARS,
    METADATA_BYTES,
    NAME_CHARS,
    ONE_LINE,
    PROVENANCE_CHARS,
    TITLE_CHARS,
)

_ONE_LINE = re.compile(ONE_LINE)

DIRECTIONS = ("out", "in", "both")

DocumentsById = dict[str, Document]


def check_documents(tenant: str, documents: Iterable[Document]) -> dict[str, DocumentsById]:
    """The documents by collection and id, each of them checked."""
    check_name("tenant", tenant)
    collections: dict[str, DocumentsById] = {}
    for document in documents:
        checked = _check_document(document)
        held = collections.setdefault(document.collection, {})
        held.pop(document.id, None)
        held[document.id] = checked
    for held in collections.values():
        _refuse_shared_chunks(held)
    return collections


def amend_documents(
    tenant: str, collection: str, chunks: Sequence[Chunk], change: Callable[[Chunk], Chunk]
) -> DocumentsById:
    """Stored chunks as a change makes them, each of them checked, by document; it leaves each in its place."""
    amended: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        now = change(chunk)
        if now != replace(chunk, text=now.text, source=now.source, title=now.title,
                          metadata=now.metadata, admission=now.admission):  # fmt: skip
            raise InputError(f"the chunk {chunk.id!r} cannot change its id or its place")
        amended.setdefault(chunk.document, []).append(now)
    documents = (Document(id, collection, chunks=tuple(held)) for id, held in amended.items())
    return check_documents(tenant, documents).get(collection, {})


def check_attachments(
    attachments: Iterable[Attachment], documents: Mapping[str, DocumentsById]
) -> list[Attachment]:
    """The attachments that belong to chunks of these documents."""
    ids = {
        name: {chunk.id for document in by_id.values() for chunk in document.chunks}
        for name, by_id in documents.items()
    }
    fit = [a for a in attachments if a.chunk in ids.get(a.collection, ())]
    for kind in {attachment.kind for attachment in fit}:
        check_name("attachment kind", kind)
    return fit


def check_name(what: str, name: str) -> None:
    """Refuse a name that cannot be a key."""
    if not isinstance(name, str) or not name:
        raise InputError(f"{what} is {name!r}; it must be a text that is not empty")
    if len(name) > NAME_CHARS:
        raise InputError(f"{what} has {len(name)} characters; at most {NAME_CHARS} are allowed")
    if not _ONE_LINE.fullmatch(name):
        raise InputError(
            f"{what} {name!r} holds a control character", hint="names are one line of plain text"
        )
    _check_texts(what, name)


def chunk_clash(collection: str, id: str, owner: str, other: str) -> InputError:
    """The error for two documents that claim one chunk id."""
    return InputError(
        f"documents {owner!r} and {other!r} both claim the chunk id {id!r} in collection {collection!r}",
        hint="chunk ids are unique in a collection: rename one, or remove the other document first",
    )


def check_edges(tenant: str, edges: Sequence[Edge]) -> None:
    """Refuse an edge that lacks an end or a weight."""
    check_name("tenant", tenant)
    for edge in edges:
        for what in ("source", "predicate", "target"):
            check_name(f"the {what} of an edge", getattr(edge, what))
        check_length("the provenance of an edge", edge.provenance, PROVENANCE_CHARS)
        if not isfinite(edge.weight):
            name = (edge.source, edge.predicate, edge.target)
            raise InputError(f"the edge {name} weighs {edge.weight}; it must be a number")


def check_fact(tenant: str, fact: Fact) -> None:
    """Refuse a fact whose id cannot be a key, or of which a part is a text by mistake."""
    check_name("tenant", tenant)
    check_name("fact id", fact.id)
    check_length(f"fact {fact.id!r}", fact.content, CHUNK_CHARS)
    for label in (fact.category, *fact.tags):
        check_length(f"a label of fact {fact.id!r}", label, LABEL_CHARS)


def check_review(tenant: str, review: Review) -> None:
    """Refuse a review whose id cannot be a key, or of which a part is a text by mistake."""
    check_name("tenant", tenant)
    check_name("review id", review.id)
    for text in (review.query, review.reason, review.answer, review.note):
        check_length(f"a text of review {review.id!r}", text, CHUNK_CHARS)


def check_direction(direction: str) -> None:
    """Refuse a direction that edges do not have."""
    if direction not in DIRECTIONS:
        raise InputError(f"direction is {direction!r}; it must be one of {', '.join(DIRECTIONS)}")


def check_amended(former: Fact, now: Fact) -> Fact:
    """The amended fact; an amendment may change everything but a fact's id and content."""
    if (now.id, now.content) != (former.id, former.content):
        raise InputError(
            f"fact {former.id!r} cannot change its id or content",
            hint="forget it and save a new one",
        )
    return now


def check_key(key: Key) -> None:
    """Refuse an API key without a tenant, an id, a hash or a scope."""
    for what in ("tenant", "id", "digest"):
        check_name(f"the {what} of a key", getattr(key, what))
    if not key.scopes:
        raise InputError("a key without a scope opens nothing", hint="give it read, write, …")
    check_length("the name of a key", key.name, LABEL_CHARS)


def key_exists(key: Key) -> InputError:
    """The error for an API key whose id or hash is taken."""
    return InputError(f"there is already a key {key.id!r}", hint="make a new one")


def check_spends(
    tenant: str, names: Sequence[tuple[SpendScope, str]], spends: Sequence[Spend]
) -> list[Spend]:
    """A change of spends gives back the rows that it was given, in their order."""
    check_name("tenant", tenant)
    if [(spend.scope, spend.name) for spend in spends] != list(names):
        raise InputError("a change of spends must give back the rows that it was given")
    return list(spends)


def refuse_over_quota(tenant: str, used: int, limit: int) -> None:
    """Refuse a write after which a tenant holds more than it may."""
    if used > limit:
        raise QuotaError(
            f"the tenant {tenant!r} would hold {used:,} bytes; limits.tenant_bytes allows {limit:,}",
            hint="remove something first, or raise limits.tenant_bytes; nothing of this write was kept",
        )


def already_decided(id: str, status: str) -> InputError:
    """The error for writing over a decided review."""
    return InputError(f"review {id!r} is already {status}", hint="open a new review")


def _check_document(document: Document) -> Document:
    check_name("document id", document.id)
    check_name("collection", document.collection)
    _check_texts(document, document.title, document.digest, document.source)
    _check_sizes(document)
    chunks = [_check_chunk(chunk, document) for chunk in document.chunks]
    _check_order(document.id, chunks)
    if any(a is not b for a, b in zip(chunks, document.chunks, strict=True)):
        return replace(document, chunks=tuple(chunks))
    return document


def _check_chunk(chunk: Chunk, document: Document) -> Chunk:
    """The checked chunk; one that names no document gets the one it stands in."""
    if chunk.id is not document.id:
        check_name("chunk id", chunk.id)
    if len(chunk.text) > CHUNK_CHARS:
        raise LimitError(
            f"{_describe(chunk)} has {len(chunk.text):,} characters; at most {CHUNK_CHARS:,} are allowed",
            hint="cut it into several, or add it as a document",
        )
    _check_texts(chunk, chunk.text, chunk.title, chunk.source)
    if not chunk.document:
        chunk = replace(chunk, document=document.id, collection=document.collection)
    if chunk.document != document.id or chunk.collection != document.collection:
        raise InputError(
            f"chunk {chunk.id!r} says document {chunk.document!r} in {chunk.collection!r}, but stands"
            f" in document {document.id!r} of {document.collection!r}"
        )
    if chunk.metadata is not document.metadata or len(chunk.title) > TITLE_CHARS:
        _check_sizes(chunk)
    return chunk


def _describe(noun: Document | Chunk) -> str:
    return f"{type(noun).__name__.lower()} {noun.id!r}"


def _check_sizes(noun: Document | Chunk) -> None:
    """Refuse a title or metadata that is a text by mistake: they stand beside every chunk."""
    if len(noun.title) > TITLE_CHARS:
        raise LimitError(
            f"the title of {_describe(noun)} has {len(noun.title):,} characters; at most {TITLE_CHARS} are allowed",
            hint="put the rest into its text",
        )
    size = len(encode(noun.metadata)) if noun.metadata else 0
    if size > METADATA_BYTES:
        raise LimitError(
            f"the metadata of {_describe(noun)} has {size:,} characters; at most {METADATA_BYTES:,} are allowed",
            hint="put what should be found into its text",
        )


def _check_order(id: str, chunks: Sequence[Chunk]) -> None:
    if len(chunks) < 2:
        return
    if any(b.position <= a.position for a, b in pairwise(chunks)):
        raise InputError(
            f"the chunks of document {id!r} do not stand in order",
            hint="number their positions 0, 1, 2, …",
        )
    seen = {chunk.id for chunk in chunks}
    if len(seen) < len(chunks):
        raise InputError(f"document {id!r} names a chunk id twice")


def _refuse_shared_chunks(documents: DocumentsById) -> None:
    owners: dict[str, str] = {}
    for document in documents.values():
        for chunk in document.chunks:
            owner = owners.setdefault(chunk.id, document.id)
            if owner != document.id:
                raise chunk_clash(document.collection, chunk.id, owner, document.id)


def _check_texts(of: str | Document | Chunk, *texts: str) -> None:
    for text in texts:
        try:
            text.isascii() or text.encode()
        except (AttributeError, UnicodeEncodeError) as error:
            what = of if isinstance(of, str) else _describe(of)
            if isinstance(error, AttributeError):
                kind = type(text).__name__
                raise InputError(f"{what} holds {kind} in place of a text") from None
            raise InputError(
                f"{what} holds half a character (a lone surrogate) at {error.start}",
                hint="decode the text with errors='replace' first",
            ) from error
