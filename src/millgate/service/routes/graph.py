"""/v1/graph: knowledge edges, the paths over them, and signed slices of conversations.

Only an admin may sign a slice; everyone with the scope `read` may verify one.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import NotFound
from millgate.knowledge.graph import Graph
from millgate.knowledge.slices import Slice
from millgate.service.edge.auth import require_scope
from millgate.service.observe.request_state import Caller
from millgate.service.routes.parse import Body, Name, Page, StrictRoute
from millgate.service.routes.responses import respond, response_schema
from millgate.service.state import service_of
from millgate.types import Edge
from millgate.types.lengths import MOST_ROWS, NAME_CHARS, PROVENANCE_CHARS

router = APIRouter(prefix="/v1/graph", tags=["graph"], route_class=StrictRoute)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Writer = Annotated[Caller, Depends(require_scope("write"))]
Admin = Annotated[Caller, Depends(require_scope("admin"))]
Node = Annotated[
    str, Query(min_length=1, max_length=NAME_CHARS, description="A name in the graph.")
]
Direction = Annotated[Literal["out", "in", "both"], Query(description="Which way edges point.")]


class EdgeIn(Body):
    """A piece of knowledge: subject, predicate, object."""

    source: Name = Field(examples=["millgate"])
    predicate: str = Field(
        max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$", examples=["built_with"]
    )
    target: Name = Field(examples=["sqlite"])
    weight: float = Field(1.0, gt=0, le=1)
    """How strong it is."""
    provenance: Annotated[str, Field(max_length=PROVENANCE_CHARS)] = ""
    """Who says so."""


class EdgesIn(Body):
    """Edges to link."""

    edges: list[EdgeIn] = Field(max_length=MOST_ROWS)


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
    edges = [Edge(**edge.model_dump()) for edge in body.edges]
    return respond({"linked": await _graph(request, caller).alink(edges)})


@router.get("/edges", summary="The edges of a node", responses=response_schema(EdgesOut))
async def edges(
    request: Request, caller: Reader, node: Node, direction: Direction = "both", limit: Page = 100
) -> Response:
    """The edges that touch a node, strongest first."""
    found = await _graph(request, caller).aedges(node, direction=direction, limit=limit)
    return respond({"edges": found})


@router.delete("/edges", summary="Remove an edge", responses=response_schema(UnlinkedOut))
async def unlink(
    request: Request, caller: Writer, source: Node, predicate: Node, target: Node
) -> Response:
    """Remove one edge."""
    unlinked = await _graph(request, caller).aunlink([Edge(source, predicate, target)])
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
    found = await _graph(request, caller).apaths(
        start, direction=direction, max_hops=max_hops, max_results=max_results
    )
    rows = [{"path": path.line, "nodes": path.nodes, "score": score} for path, score in found]
    return respond({"paths": rows})


@router.post("/slices", summary="Cut and sign a slice", responses=response_schema(Slice))
async def create_slice(body: SliceIn, request: Request, caller: Admin) -> Response:
    """Cut the neighborhood of a turn and sign it."""
    graph = _graph(request, caller)
    return respond(await graph.acut_slice(body.anchor, collection=body.collection))


@router.post("/verify", summary="Verify a slice", responses=response_schema(VerifyOut))
async def verify_slice(body: VerifyIn, request: Request, caller: Reader) -> Response:
    """Whether a slice is exactly what was signed for this tenant."""
    return respond({"admissible": await _graph(request, caller).averify(body.slice)})


def _graph(request: Request, caller: Caller) -> Graph:
    return service_of(request).gate_for(caller).graph
