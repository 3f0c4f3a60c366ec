"""Intake: what every store checks before it writes.

Documents come out grouped by collection, the last of two with one id standing, each chunk knowing its
document and collection, positions rising, and every text one that can be written as UTF-8.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from headgate.errors import InputError
from headgate.stores.codec import encode
from headgate.types import Chunk, Document

NAME_CHARS = 1024  # ids are keys of several indexes; longer ones are texts by mistake

Shelf = dict[str, Document]


def sort(tenant: str, documents: Iterable[Document]) -> dict[str, Shelf]:
    """The checked documents by collection and id."""
    named("tenant", tenant)
    shelves: dict[str, Shelf] = {}
    for document in documents:
        checked = _check(document)
        shelf = shelves.setdefault(document.collection, {})
        shelf.pop(document.id, None)
        shelf[document.id] = checked
    for shelf in shelves.values():
        _refuse_shared(shelf)
    return shelves


def named(what: str, name: str) -> None:
    """Refuse a name that cannot be a key."""
    if not isinstance(name, str) or not name:
        raise InputError(f"{what} is {name!r}; it must be a text that is not empty")
    if len(name) > NAME_CHARS:
        raise InputError(f"{what} has {len(name)} characters; at most {NAME_CHARS} are allowed")
    if "\0" in name:
        raise InputError(f"{what} {name!r} holds a NUL character")
    _writable(what, name)


def clash(collection: str, id: str, owner: str, other: str) -> InputError:
    """The error for two documents that claim one chunk id."""
    return InputError(
        f"documents {owner!r} and {other!r} both claim the chunk id {id!r} in collection {collection!r}",
        hint="chunk ids are unique in a collection: rename one, or remove the other document first",
    )


def _check(document: Document) -> Document:
    named("document id", document.id)
    named("collection", document.collection)
    _writable(f"document {document.id!r}", document.title, document.digest, document.source)
    if document.metadata:
        encode(document.metadata)
    chunks = [_own(chunk, document) for chunk in document.chunks]
    _refuse_disorder(document.id, chunks)
    if any(a is not b for a, b in zip(chunks, document.chunks, strict=True)):
        return replace(document, chunks=tuple(chunks))
    return document


def _own(chunk: Chunk, document: Document) -> Chunk:
    """The chunk under its document; one that names none takes it from there."""
    named("chunk id", chunk.id)
    _writable(f"chunk {chunk.id!r}", chunk.text, chunk.title, chunk.source)
    if not chunk.document:
        chunk = replace(chunk, document=document.id, collection=document.collection)
    if chunk.document != document.id or chunk.collection != document.collection:
        raise InputError(
            f"chunk {chunk.id!r} says document {chunk.document!r} in {chunk.collection!r}, but stands"
            f" in document {document.id!r} of {document.collection!r}"
        )
    if chunk.metadata:
        encode(chunk.metadata)
    return chunk


def _refuse_disorder(id: str, chunks: Sequence[Chunk]) -> None:
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


def _refuse_shared(shelf: Shelf) -> None:
    owners: dict[str, str] = {}
    for document in shelf.values():
        for chunk in document.chunks:
            owner = owners.setdefault(chunk.id, document.id)
            if owner != document.id:
                raise clash(document.collection, chunk.id, owner, document.id)


def _writable(what: str, *texts: str) -> None:
    for text in texts:
        try:
            text.isascii() or text.encode()
        except AttributeError:
            raise InputError(f"{what} holds {type(text).__name__} where a text belongs") from None
        except UnicodeEncodeError as error:
            raise InputError(
                f"{what} holds half a character (a lone surrogate) at {error.start}",
                hint="decode the text with errors='replace' first",
            ) from error
