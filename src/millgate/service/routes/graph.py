"""/v1/graph: knowledge edges, the paths over them, and signed slices of conversations.

Only an admin may sign a slice; everyone with the scope `read` may verify one.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from millgate.errors import NotFound
from millgate.knowledge.slices import Slice
from millgate.service.routes.callers import AdminGate, ReadGate, WriteGate
from millgate.service.routes.parse import Body, Name, Page, StrictRoute
from millgate.service.routes.responses import respond, response_schema
from millgate.types import Edge
from millgate.types.lengths import MOST_ROWS, NAME_CHARS, PROVENANCE_CHARS

router = APIRouter(prefix="/v1/graph", tags=["graph"], route_class=StrictRoute)

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
async def link(body: EdgesIn, gate: WriteGate) -> Response:
    """Link edges; linking one again sets its weight and provenance."""
    edges = [Edge(**edge.model_dump()) for edge in body.edges]
    return respond({"linked": await gate.graph.alink(edges)})


@router.get("/edges", summary="The edges of a node", responses=response_schema(EdgesOut))
async def edges(
    gate: ReadGate, node: Node, direction: Direction = "both", limit: Page = 100
) -> Response:
    """The edges that touch a node, strongest first."""
    found = await gate.graph.aedges(node, direction=direction, limit=limit)
    return respond({"edges": found})


@router.delete("/edges", summary="Remove an edge", responses=response_schema(UnlinkedOut))
async def unlink(gate: WriteGate, source: Node, predicate: Node, target: Node) -> Response:
    """Remove one edge."""
    unlinked = await gate.graph.aunlink([Edge(source, predicate, target)])
    if not unlinked:
        raise NotFound("there is no such edge")
    return respond({"unlinked": unlinked})


@router.get("/paths", summary="Paths from a node", responses=response_schema(PathsOut))
async def paths(
    gate: ReadGate,
    start: Node,
    *,
    direction: Direction = "both",
    max_hops: Annotated[int, Query(ge=1, le=5)] = 2,
    max_results: Page = 50,
) -> Response:
    """The paths that begin at a node, shortest first, then strongest."""
    found = await gate.graph.apaths(
        start, direction=direction, max_hops=max_hops, max_results=max_results
    )
    rows = [{"path": path.line, "nodes": path.nodes, "score": score} for path, score in found]
    return respond({"paths": rows})


@router.post("/slices", summary="Cut and sign a slice", responses=response_schema(Slice))
async def create_slice(body: SliceIn, gate: AdminGate) -> Response:
    """Cut the neighborhood of a turn and sign it."""
    graph = gate.graph
    return respond(await graph.acut_slice(body.anchor, collection=body.collection))


@router.post("/verify", summary="Verify a slice", responses=response_schema(VerifyOut))
async def verify_slice(body: VerifyIn, gate: ReadGate) -> Response:
    """Whether a slice is exactly what was signed for this tenant."""
    return respond({"admissible": await gate.graph.averify(body.slice)})
