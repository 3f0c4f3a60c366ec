"""/v1/graph: knowledge edges, the paths over them, and slices of conversations.

Only an admin signs a slice; anybody who reads may have one verified.
"""

import asyncio
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.errors import NotFound
from headgate.graph.admission import dump, load, sign, verify
from headgate.graph.kernel import Slice, Turn, slice_around
from headgate.graph.knowledge import base_score, edge, traverse
from headgate.service.auth import need
from headgate.service.parse import Body, Name, Page, Strict
from headgate.service.request_state import Caller
from headgate.service.responses import gives, reply
from headgate.service.state import hub_of
from headgate.types import Edge

router = APIRouter(prefix="/v1/graph", tags=["graph"], route_class=Strict)

Reader = Annotated[Caller, Depends(need("read"))]
Writer = Annotated[Caller, Depends(need("write"))]
Admin = Annotated[Caller, Depends(need("admin"))]
Node = Annotated[str, Query(min_length=1, max_length=1024, description="A name in the graph.")]
Direction = Annotated[Literal["out", "in", "both"], Query(description="Which way edges point.")]


class EdgeIn(Body):
    """A piece of knowledge: subject, predicate, object."""

    source: Name = Field(examples=["headgate"])
    predicate: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$", examples=["built_with"])
    target: Name = Field(examples=["sqlite"])
    weight: float = Field(1.0, gt=0, le=1)
    """How strong it is."""
    provenance: str = Field("", max_length=1024)
    """Who says so."""


class EdgesIn(Body):
    """Edges to link."""

    edges: list[EdgeIn] = Field(max_length=10_000)


class EdgeOut(BaseModel):
    """A piece of knowledge."""

    source: str
    predicate: str
    target: str
    weight: float
    provenance: str


class EdgesOut(BaseModel):
    """Edges, strongest first."""

    edges: list[EdgeOut]


class LinkedOut(BaseModel):
    """How many edges are new or changed."""

    linked: int


class UnlinkedOut(BaseModel):
    """How many edges went."""

    unlinked: int


class PathOut(BaseModel):
    """A walk over edges, as one line, and what it is worth."""

    path: str
    nodes: list[str]
    score: float


class PathsOut(BaseModel):
    """Paths, shortest first."""

    paths: list[PathOut]


class SliceIn(Body):
    """Where to cut a slice."""

    anchor: Name
    """The turn it is cut around."""
    collection: Name = "turns"
    """The conversation's collection."""


class VerifyIn(Body):
    """A slice as it was given out."""

    slice: dict[str, Any]


class VerifyOut(BaseModel):
    """Whether a slice is what was signed here."""

    admissible: bool


class SliceOut(BaseModel):
    """The turns around an anchor, the hashes that pin them down, and the token."""

    id: str
    anchor: str
    policy_id: str
    params_hash: str
    snapshot_hash: str
    turns: list[dict[str, Any]]
    edges: list[list[str]]
    schema_: str = Field(alias="schema")
    version: str
    token: str | None


@router.post("/edges", summary="Link edges", responses=gives(LinkedOut))
async def link(asked: EdgesIn, request: Request, caller: Writer) -> Response:
    """Link edges; linking again sets weight and provenance."""
    store = hub_of(request).gate_for(caller).parts.store
    edges = [
        edge(e.source, e.predicate, e.target, weight=e.weight, provenance=e.provenance)
        for e in asked.edges
    ]
    return reply({"linked": await asyncio.to_thread(store.link, caller.tenant, edges)})


@router.get("/edges", summary="The edges of a node", responses=gives(EdgesOut))
async def edges(
    request: Request, caller: Reader, node: Node, direction: Direction = "both", limit: Page = 100
) -> Response:
    """The edges that touch a node, strongest first."""
    store = hub_of(request).gate_for(caller).parts.store
    found = await asyncio.to_thread(
        store.touching, caller.tenant, [node], direction=direction, limit=limit
    )
    return reply({"edges": found})


@router.delete("/edges", summary="Remove an edge", responses=gives(UnlinkedOut))
async def unlink(
    request: Request, caller: Writer, source: Node, predicate: Node, target: Node
) -> Response:
    """Remove one edge."""
    store = hub_of(request).gate_for(caller).parts.store
    gone = await asyncio.to_thread(store.unlink, caller.tenant, [Edge(source, predicate, target)])
    if not gone:
        raise NotFound("there is no such edge")
    return reply({"unlinked": gone})


@router.get("/paths", summary="Paths from a node", responses=gives(PathsOut))
async def paths(
    request: Request,
    caller: Reader,
    start: Node,
    *,
    direction: Direction = "both",
    max_hops: Annotated[int, Query(ge=1, le=5)] = 2,
    max_results: Page = 50,
) -> Response:
    """The paths that begin at a node, shortest first, then strongest."""
    parts = hub_of(request).gate_for(caller).parts
    wanted = {"max_hops": max_hops, "max_results": max_results}
    policy = parts.settings.graph.model_copy(update=wanted)
    found = await asyncio.to_thread(
        traverse, parts.store, start, policy, tenant=caller.tenant, direction=direction
    )
    rows = [
        {"path": path.line, "nodes": path.nodes, "score": base_score(path, policy)}
        for path in found
    ]
    return reply({"paths": rows})


@router.post("/slices", summary="Cut and sign a slice", responses=gives(SliceOut))
async def slices(asked: SliceIn, request: Request, caller: Admin) -> Response:
    """Cut the neighborhood of a turn and sign it."""
    parts = hub_of(request).gate_for(caller).parts

    def made() -> Slice:
        chunks = parts.store.scan(caller.tenant, asked.collection)
        turns = [Turn.from_chunk(chunk) for chunk in chunks if chunk.source == "turn"]
        return sign(
            slice_around(turns, asked.anchor, parts.settings.slice),
            parts.store.secret(caller.tenant),
        )

    return reply(dump(await asyncio.to_thread(made)))


@router.post("/verify", summary="Is this slice ours?", responses=gives(VerifyOut))
async def verified(asked: VerifyIn, request: Request, caller: Reader) -> Response:
    """Whether a slice is, unchanged, what was signed for this tenant."""
    store = hub_of(request).gate_for(caller).parts.store
    secrets = await asyncio.to_thread(store.secrets, caller.tenant)
    return reply({"admissible": verify(load(asked.slice), secrets, now=time.time())})
