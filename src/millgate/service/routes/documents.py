"""/v1/documents: add, read and remove the documents that contexts are made of; /v1/turns: keep a conversation."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from orjson import Fragment
from pydantic import AliasChoices, Field
from starlette.requests import Request

from millgate.errors import NotFound
from millgate.ingest.load import Kind, Summary
from millgate.knowledge.turns import COLLECTION, AddedTurns
from millgate.service.routes.api import (  # fmt: skip
    Body,
    Collection,
    Id,
    Name,
    NewName,
    ReadGate,
    Route,
    Text,
    WriteGate,
    to_json,
)
from millgate.service.state import service_of
from millgate.types import Chunk, Size
from millgate.types.lengths import MOST_ROWS, SESSION_CHARS, TITLE_CHARS

router = APIRouter(prefix="/v1", route_class=Route)


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


@dataclass
class CollectionsOut:
    """The collections of a tenant, and how much each holds."""

    collections: Mapping[str, Size]


@dataclass
class DocumentOut:
    """A document: its chunks in reading order."""

    id: str
    collection: str
    chunks: list[Chunk]


@dataclass
class RemovedOut:
    """How many chunks were removed."""

    removed: int


@router.post("/documents")
def add_documents(body: DocumentsIn, gate: WriteGate) -> Summary:
    """Add documents. Each replaces the one with its id, and only what differs is written."""
    rows = [row.model_dump(exclude_none=True) for row in body.documents]
    return gate.add(rows, collection=body.collection, kind=body.kind)


@router.get("/documents")
def list_collections(gate: ReadGate) -> CollectionsOut:
    """The collections, and how much each holds."""
    return CollectionsOut(gate.collections())


@router.get("/documents/{id:path}", response_model=DocumentOut)
async def read_document(
    id: Id, request: Request, gate: ReadGate, collection: Collection = "main"
) -> dict[str, Any]:
    """A document's chunks in reading order."""

    def write() -> Fragment:
        rows = b",".join(map(to_json, gate.scan_document(id, collection=collection)))
        return Fragment(b"[%b]" % rows)

    async with service_of(request).whole_documents:
        chunks = await asyncio.to_thread(write)
    return {"id": id, "collection": collection, "chunks": chunks}


@router.delete("/documents/{id:path}")
def remove_document(id: Id, gate: WriteGate, collection: Collection = "main") -> RemovedOut:
    """Remove a document with its chunks."""
    removed = gate.remove(collection=collection, documents=[id])
    if not removed:
        raise NotFound(f"there is no document {id!r} in {collection!r}")
    return RemovedOut(removed)


@router.post("/turns")
def keep_turns(body: TurnsIn, gate: WriteGate) -> AddedTurns:
    """Keep the turns that are new, in order. Blocks that Millgate injected into them are left out."""
    return gate.add_turns(body.session, body.messages, collection=body.collection)
