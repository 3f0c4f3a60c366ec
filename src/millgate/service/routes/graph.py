"""/v1/graph: knowledge edges, the paths over them, and signed slices of conversations.

Only an admin may sign a slice; everyone with the scope `read` may verify one.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from millgate.errors import NotFound
from millgate.knowledge.slices import Slice
from millgate.service.routes.api import AdminGate, Body, Name, Page, ReadGate, Route, WriteGate
from millgate.types import Edge
from millgate.types.lengths import MOST_ROWS, NAME_CHARS, PROVENANCE_CHARS

router = APIRouter(prefix="/v1/graph", route_class=Route)

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


class SliceIn(Body):
    """Which turn to cut a slice around."""

    anchor: Name
    """The id of the turn."""
    collection: Name = "turns"
    """The conversation's collection."""


class VerifyIn(Body):
    """A slice as it was received."""

    slice: dict[str, Any]


@dataclass
class EdgesOut:
    """Edges, strongest first."""

    edges: list[Edge]


@dataclass
class LinkedOut:
    """How many edges are new or changed."""

    linked: int


@dataclass
class UnlinkedOut:
    """How many edges were removed."""

    unlinked: int


@dataclass
class PathOut:
    """A path over edges: as one line, its nodes, and its score."""

    path: str
    nodes: tuple[str, ...]
    score: float


@dataclass
class PathsOut:
    """Paths, shortest first."""

    paths: list[PathOut]


@dataclass
class VerifyOut:
    """Whether a slice is exactly what was signed here."""

    admissible: bool


@router.post("/edges")
def link_edges(body: EdgesIn, gate: WriteGate) -> LinkedOut:
    """Link edges; linking one again sets its weight and provenance."""
    return LinkedOut(gate.graph.link([Edge(**edge.model_dump()) for edge in body.edges]))


@router.get("/edges")
def list_edges(
    gate: ReadGate, node: Node, direction: Direction = "both", limit: Page = 100
) -> EdgesOut:
    """The edges that touch a node, strongest first."""
    return EdgesOut(gate.graph.edges(node, direction=direction, limit=limit))


@router.delete("/edges")
def unlink_edge(gate: WriteGate, source: Node, predicate: Node, target: Node) -> UnlinkedOut:
    """Remove one edge."""
    unlinked = gate.graph.unlink([Edge(source, predicate, target)])
    if not unlinked:
        raise NotFound("there is no such edge")
    return UnlinkedOut(unlinked)


@router.get("/paths")
def find_paths(
    gate: ReadGate,
    start: Node,
    *,
    direction: Direction = "both",
    max_hops: Annotated[int, Query(ge=1, le=5)] = 2,
    max_results: Page = 50,
) -> PathsOut:
    """The paths that begin at a node, shortest first, then strongest."""
    found = gate.graph.paths(start, direction=direction, max_hops=max_hops, max_results=max_results)
    return PathsOut([PathOut(path.line, path.nodes, score) for path, score in found])


@router.post("/slices")
def sign_slice(body: SliceIn, gate: AdminGate) -> Slice:
    """Cut the neighborhood of a turn and sign it."""
    return gate.graph.cut_slice(body.anchor, collection=body.collection)


@router.post("/verify")
def verify_slice(body: VerifyIn, gate: ReadGate) -> VerifyOut:
    """Whether a slice is exactly what was signed for this tenant."""
    return VerifyOut(gate.graph.verify(body.slice))
