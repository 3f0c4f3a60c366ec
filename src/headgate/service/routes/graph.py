"""/v1/graph: knowledge edges, the paths over them, and signed slices of conversations.

Only an admin may sign a slice; everyone with the scope `read` may verify one.
"""

import asyncio
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.errors import NotFound
from headgate.graph.admission import load, sign, verify
from headgate.graph.kernel import Slice, Turn, cut
from headgate.graph.knowledge import base_score, edge, traverse
from headgate.service.auth import require_scope
from headgate.service.parse import Body, Name, Page, StrictRoute
from headgate.service.request_state import Caller
from headgate.service.responses import respond, response_schema
from headgate.service.state import service_of
from headgate.types import Edge
from headgate.wiring import Parts

router = APIRouter(prefix="/v1/graph", tags=["graph"], route_class=StrictRoute)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Writer = Annotated[Caller, Depends(require_scope("write"))]
Admin = Annotated[Caller, Depends(require_scope("admin"))]
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


class EdgesOut(BaseModel):
    """Edges, strongest first."""

    edges: list[Edge]


class LinkedOut(BaseModel):
    """How many edges are new or changed."""

    linked: int


class UnlinkedOut(BaseModel):
    """How many edges were removed."""

    unlinked: int


class PathOut(BaseModel):
    """A path over edges: as one line, its nodes, and its score."""

    path: str
    nodes: list[str]
    score: float


class PathsOut(BaseModel):
    """Paths, shortest first."""

    paths: list[PathOut]


class SliceIn(Body):
    """Which turn to cut a slice around."""

    anchor: Name
    """The id of the turn."""
    collection: Name = "turns"
    """The conversation's collection."""


class VerifyIn(Body):
    """A slice as it was received."""

    slice: dict[str, Any]


class VerifyOut(BaseModel):
    """Whether a slice is exactly what was signed here."""

    admissible: bool


@router.post("/edges", summary="Link edges", responses=response_schema(LinkedOut))
async def link(body: EdgesIn, request: Request, caller: Writer) -> Response:
    """Link edges; linking one again sets its weight and provenance."""
    edges = [
        edge(e.source, e.predicate, e.target, weight=e.weight, provenance=e.provenance)
        for e in body.edges
    ]
    store = _parts(request, caller).store
    return respond({"linked": await asyncio.to_thread(store.link, caller.tenant, edges)})


@router.get("/edges", summary="The edges of a node", responses=response_schema(EdgesOut))
async def edges(
    request: Request, caller: Reader, node: Node, direction: Direction = "both", limit: Page = 100
) -> Response:
    """The edges that touch a node, strongest first."""
    store = _parts(request, caller).store
    found = await asyncio.to_thread(
        store.touching, caller.tenant, [node], direction=direction, limit=limit
    )
    return respond({"edges": found})


@router.delete("/edges", summary="Remove an edge", responses=response_schema(UnlinkedOut))
async def unlink(
    request: Request, caller: Writer, source: Node, predicate: Node, target: Node
) -> Response:
    """Remove one edge."""
    store = _parts(request, caller).store
    unlinked = await asyncio.to_thread(
        store.unlink, caller.tenant, [Edge(source, predicate, target)]
    )
    if not unlinked:
        raise NotFound("there is no such edge")
    return respond({"unlinked": unlinked})


@router.get("/paths", summary="Paths from a node", responses=response_schema(PathsOut))
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
    parts = _parts(request, caller)
    policy = parts.settings.graph.model_copy(
        update={"max_hops": max_hops, "max_results": max_results}
    )
    found = await asyncio.to_thread(
        traverse, parts.store, start, policy, tenant=caller.tenant, direction=direction
    )
    rows = [
        {"path": path.line, "nodes": path.nodes, "score": base_score(path, policy)}
        for path in found
    ]
    return respond({"paths": rows})


@router.post("/slices", summary="Cut and sign a slice", responses=response_schema(Slice))
async def create_slice(body: SliceIn, request: Request, caller: Admin) -> Response:
    """Cut the neighborhood of a turn and sign it."""
    parts = _parts(request, caller)

    def cut_and_sign() -> Slice:
        chunks = parts.store.scan(caller.tenant, body.collection)
        turns = [Turn.of(chunk) for chunk in chunks if chunk.source == "turn"]
        unsigned = cut(turns, body.anchor, parts.settings.slice)
        return sign(unsigned, parts.store.secret(caller.tenant))

    return respond(await asyncio.to_thread(cut_and_sign))


@router.post("/verify", summary="Verify a slice", responses=response_schema(VerifyOut))
async def verify_slice(body: VerifyIn, request: Request, caller: Reader) -> Response:
    """Whether a slice is exactly what was signed for this tenant."""
    store = _parts(request, caller).store
    secrets = await asyncio.to_thread(store.secrets, caller.tenant)
    return respond({"admissible": verify(load(body.slice), secrets, now=time.time())})


def _parts(request: Request, caller: Caller) -> Parts:
    return service_of(request).gate_for(caller).parts
