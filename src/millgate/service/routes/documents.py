"""/v1/documents: add, read and remove the documents that contexts are made of; /v1/turns: keep a conversation."""

import asyncio
from typing import Any

from fastapi import APIRouter
from orjson import Fragment
from pydantic import AliasChoices, BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import NotFound
from millgate.ingest.load import Kind, Summary
from millgate.knowledge.turns import COLLECTION, AddedTurns
from millgate.service.routes.callers import ReadGate, WriteGate
from millgate.service.routes.parse import Body, Collection, Id, Name, NewName, StrictRoute, Text
from millgate.service.routes.responses import respond, response_schema, to_json
from millgate.service.state import service_of
from millgate.types import Chunk, Size
from millgate.types.lengths import MOST_ROWS, SESSION_CHARS, TITLE_CHARS

router = APIRouter(prefix="/v1/documents", tags=["documents"], route_class=StrictRoute)


class DocumentIn(Body):
    """A text with an id; without one, its id is made from its content."""

    id: Name | None = Field(None, examples=["refunds"])
    """Its id; a document with the same id is replaced."""
    text: str = Field(examples=["Refunds are paid within 14 days."])
    """The text; a long one is cut into chunks."""
    title: str = Field("", max_length=TITLE_CHARS)
    """Its title; it counts twice in the search."""
    collection: Name | None = None
    """Its collection, if not the request's."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Data that comes back with it."""


class DocumentsIn(Body):
    """Documents to add."""

    documents: list[DocumentIn] = Field(max_length=MOST_ROWS)
    collection: NewName = "main"
    kind: Kind = ""
    """"conversation" if the documents are turns that nothing in their text tells, "documents" if they are none,
    whatever they open with."""


class CollectionsOut(BaseModel):
    """The collections of a tenant, and how much each holds."""

    collections: dict[str, Size]


class DocumentOut(BaseModel):
    """A document: its chunks in reading order."""

    id: str
    collection: str
    chunks: list[Chunk]


class RemovedOut(BaseModel):
    """How many chunks were removed."""

    removed: int


@router.post("", summary="Add documents", responses=response_schema(Summary))
async def add(body: DocumentsIn, gate: WriteGate) -> Response:
    """Add documents. Each replaces the one with its id, and only what differs is written."""
    rows = [row.model_dump(exclude_none=True) for row in body.documents]
    return respond(await gate.aadd(rows, collection=body.collection, kind=body.kind))


@router.get("", summary="List collections", responses=response_schema(CollectionsOut))
async def collections(gate: ReadGate) -> Response:
    """The collections, and how much each holds."""
    found = await gate.acollections()
    return respond({"collections": found})


@router.get("/{id:path}", summary="Read a document", responses=response_schema(DocumentOut))
async def document(
    id: Id, request: Request, gate: ReadGate, collection: Collection = "main"
) -> Response:
    """A document's chunks in reading order."""

    def write() -> Response:
        chunks = bytearray()
        for chunk in gate.scan_document(id, collection=collection):
            chunks += b",%b" % to_json(chunk)
        chunks[:1] = b"["
        return respond(
            {"id": id, "collection": collection, "chunks": Fragment(bytes(chunks + b"]"))}
        )

    async with service_of(request).whole_documents:
        return await asyncio.to_thread(write)


@router.delete("/{id:path}", summary="Remove a document", responses=response_schema(RemovedOut))
async def remove(id: Id, gate: WriteGate, collection: Collection = "main") -> Response:
    """Remove a document with its chunks."""
    removed = await gate.aremove(collection=collection, documents=[id])
    if not removed:
        raise NotFound(f"there is no document {id!r} in {collection!r}")
    return respond({"removed": removed})


turns = APIRouter(tags=["turns"], route_class=StrictRoute)


class TurnsIn(Body):
    """The turns of a conversation; the whole history may be sent each time."""

    session: Text = Field(
        max_length=SESSION_CHARS,
        validation_alias=AliasChoices("session", "session_id"),
        examples=["monday"],
    )
    """The conversation they belong to."""
    messages: list[str | dict[str, Any]] = Field(
        max_length=MOST_ROWS, examples=[[{"role": "user", "content": "My sister moved to Lisbon."}]]
    )
    """Texts, or chat messages {role or name, content, time, id, parent, phase, salience}."""
    collection: NewName = COLLECTION
    """Where they are kept."""


@turns.post("/v1/turns", summary="Keep the turns of a conversation", responses=response_schema(AddedTurns))  # fmt: skip
async def add_turns(body: TurnsIn, gate: WriteGate) -> Response:
    """Keep the turns that are new, in order. Blocks that Millgate injected into them are left out."""
    added = await gate.aadd_turns(body.session, body.messages, collection=body.collection)
    return respond(added)
