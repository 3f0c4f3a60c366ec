"""/v1/documents: add, look at and remove what context is made of."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.errors import NotFound
from headgate.service.auth import need
from headgate.service.parse import Body, Collection, Name, Strict
from headgate.service.request_state import Caller
from headgate.service.responses import gives, reply
from headgate.service.state import hub_of

router = APIRouter(prefix="/v1/documents", tags=["documents"], route_class=Strict)

Reader = Annotated[Caller, Depends(need("read"))]
Writer = Annotated[Caller, Depends(need("write"))]


class DocumentIn(Body):
    """A text, and what it is known by; without an id it is known by its content."""

    id: Name | None = Field(None, examples=["refunds"])
    """Its id; a document with a known id replaces what had it."""
    text: str = Field(examples=["Refunds are paid within 14 days."])
    """The text; a long one is cut into chunks."""
    title: str = ""
    """Its title; it counts twice in the search."""
    collection: Name | None = None
    """Where it belongs, if not to the request's collection."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Whatever should come back with it."""


class DocumentsIn(Body):
    """Documents to add."""

    documents: list[DocumentIn] = Field(max_length=10_000)
    collection: Name = "main"


class Skipped(BaseModel):
    """Something that was left out, and why."""

    what: str
    reason: str
    size: int


class AddedOut(BaseModel):
    """What was written, left alone since it was there, and skipped."""

    documents: int
    chunks: int
    unchanged: int
    removed: int
    skips: int
    skipped: list[Skipped]


class SizeOut(BaseModel):
    """How much a collection holds."""

    documents: int
    chunks: int
    chars: int


class CollectionsOut(BaseModel):
    """The collections of a tenant."""

    collections: dict[str, SizeOut]


class PieceOut(BaseModel):
    """A chunk of a document."""

    id: str
    text: str
    document: str
    collection: str
    source: str
    title: str
    position: int
    metadata: dict[str, Any]
    admission: str | None


class DocumentOut(BaseModel):
    """A document: its chunks in reading order."""

    id: str
    collection: str
    chunks: list[PieceOut]


class RemovedOut(BaseModel):
    """How many chunks went."""

    removed: int


@router.post("", summary="Add documents", responses=gives(AddedOut))
async def add(asked: DocumentsIn, request: Request, caller: Writer) -> Response:
    """Add documents; each replaces its former self whole, and only what differs is written."""
    gate = hub_of(request).gate_for(caller)
    rows = [row.model_dump(exclude_none=True) for row in asked.documents]
    done = await asyncio.to_thread(gate.add, rows, collection=asked.collection)
    return reply(done)


@router.get("", summary="What is there", responses=gives(CollectionsOut))
async def sizes(request: Request, caller: Reader) -> Response:
    """The collections, and how much each holds."""
    gate = hub_of(request).gate_for(caller)
    found = await asyncio.to_thread(gate.parts.store.collections, caller.tenant)
    return reply({"collections": found})


@router.get("/{id:path}", summary="One document", responses=gives(DocumentOut))
async def document(
    id: str, request: Request, caller: Reader, collection: Collection = "main"
) -> Response:
    """A document's chunks in reading order."""
    store = hub_of(request).gate_for(caller).parts.store
    chunks = await asyncio.to_thread(
        lambda: list(store.scan(caller.tenant, collection, document=id))
    )
    if not chunks:
        raise NotFound(f"there is no document {id!r} in {collection!r}")
    return reply({"id": id, "collection": collection, "chunks": chunks})


@router.delete("/{id:path}", summary="Remove a document", responses=gives(RemovedOut))
async def remove(
    id: str, request: Request, caller: Writer, collection: Collection = "main"
) -> Response:
    """Remove a document with its chunks."""
    gate = hub_of(request).gate_for(caller)
    gone = await asyncio.to_thread(gate.remove, collection=collection, documents=[id])
    if not gone:
        raise NotFound(f"there is no document {id!r} in {collection!r}")
    return reply({"removed": gone})
