"""Graph: the edges around a name as a picture, and the same edges in a table.

The name stands in the middle, its neighbors on a circle around it, theirs on a second one, each beyond the neighbor
that it was reached from. Only the strongest edges are drawn, as many as a picture can carry; the table has the rest.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import cos, pi, sin
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.gateway import Millgate
from millgate.knowledge.paths import neighborhood
from millgate.service.dashboard.render import render
from millgate.service.dashboard.route import PageRoute
from millgate.service.edge.auth import require_scope
from millgate.service.edge.paths import DASHBOARD
from millgate.service.observe.request_state import Caller
from millgate.service.state import service_of
from millgate.text.table import clip
from millgate.types import Edge, node_key
from millgate.types.lengths import NAME_CHARS

router = APIRouter(
    prefix=f"{DASHBOARD}/store/graph", route_class=PageRoute, include_in_schema=False
)

Reader = Annotated[Caller, Depends(require_scope("read"))]

SUGGESTED = 24  # names to begin with
TRIED = 300  # names that are looked up for that
LISTED = 200  # edges in the table


@router.get("")
async def show_graph(
    request: Request,
    caller: Reader,
    node: Annotated[str, Query(max_length=NAME_CHARS)] = "",
    hops: Annotated[int, Query(ge=1, le=2)] = 1,
) -> Response:
    """The neighborhood of a name; without one, names to begin with."""
    gate = service_of(request).gate_for(caller)
    name = node.strip()
    charges = {name: 1.0} if name else {}
    found = await asyncio.to_thread(
        neighborhood, gate.store, charges, tenant=gate.tenant, hops=hops
    )
    edges = spell_alike(chain(*found))
    name = next(
        (n for e in edges for n in (e.source, e.target) if node_key(n) == node_key(name)), name
    )
    suggested = [] if edges else await asyncio.to_thread(suggest_names, gate)
    return render(
        request, "graph.html",
        node=name, hops=hops, edges=edges[:LISTED], total=len(edges), picture=draw_graph(name, edges) if edges else None,
        suggested=suggested, size=(WIDTH, HEIGHT),
    )  # fmt: skip


def suggest_names(gate: Millgate) -> list[str]:
    """Names that have edges, from what facts name and what documents are called: a store of edges has no list of its
    own.
    """
    named: dict[str, None] = {}
    for fact in gate.facts.all()[:TRIED]:
        named.update(dict.fromkeys(fact.entities))
    for collection in islice(gate.collections(), 5):
        for chunk in islice(gate.store.scan(gate.tenant, collection), TRIED // 5):
            named.update(dict.fromkeys(filter(None, (chunk.document, chunk.title))))
    tried = list(named)[:TRIED]
    edges = gate.store.edges_touching(gate.tenant, tried, limit=1)
    found = dict.fromkeys(name for e in edges for name in (e.source, e.target))
    return list(found)[:SUGGESTED]


def spell_alike(edges: Iterable[Edge]) -> list[Edge]:
    """The edges with each name as the first of them spells it: names are compared without case."""
    known: dict[str, str] = {}
    return [
        replace(
            edge,
            source=known.setdefault(node_key(edge.source), edge.source),
            target=known.setdefault(node_key(edge.target), edge.target),
        )
        for edge in edges
    ]


WIDTH, HEIGHT = 1000, 640
INNER, OUTER = 0.5, 0.92  # of half the frame
MOST_NEAR, MOST_FAR = 24, 36  # nodes drawn on each circle
NAMED = 16  # edges up to which each is labeled
LABEL = 26  # characters
TILT = 0.3  # radians: with it few names stand right above or below the middle, where their labels would cross edges


@dataclass(frozen=True, slots=True)
class Node:
    """A name at its place; `anchor` is on which side of the point its label stands."""

    name: str
    label: str
    x: float
    y: float
    anchor: str
    ring: int


@dataclass(frozen=True, slots=True)
class Line:
    """An edge between two places; its label is empty in a crowded picture."""

    edge: Edge
    x1: float
    y1: float
    x2: float
    y2: float
    label: str
    width: float


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn, and how many names are not."""

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    left_out: int


def draw_graph(center: str, edges: Sequence[Edge]) -> Picture:
    """Place a name and what is around it; the edges come nearest and strongest first."""
    near = _neighbors(edges, [center], {center})
    shown = list(near)[:MOST_NEAR]
    far = _neighbors(edges, shown, {center, *near})
    parents = {name: at for at, name in enumerate(shown)}
    outer = sorted(list(far)[:MOST_FAR], key=lambda name: parents[far[name]])
    nodes = {center: _node(center, 0.0, 0.0, ring=0)}
    nodes |= _place(shown, INNER if far else OUTER * 0.8, ring=1)
    nodes |= _place(outer, OUTER, ring=2)
    drawn = [e for e in edges if e.source in nodes and e.target in nodes]
    lines = tuple(_line(e, nodes, named=len(drawn) <= NAMED) for e in drawn)
    everyone = {name for e in edges for name in (e.source, e.target)} | {center}
    return Picture(tuple(nodes.values()), lines, len(everyone) - len(nodes))


def _neighbors(
    edges: Iterable[Edge], around: Sequence[str], known: Iterable[str]
) -> dict[str, str]:
    """The names one edge away, each with the name from which it was reached first."""
    inside, seen = set(around), set(known)
    found: dict[str, str] = {}
    for edge in edges:
        for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
            if here in inside and there not in seen:
                found.setdefault(there, here)
    return found


def _place(names: Sequence[str], radius: float, *, ring: int) -> dict[str, Node]:
    """Put names evenly around a circle, starting on the right."""
    turn = 2 * pi / max(1, len(names))
    angles = (turn * at + TILT for at in range(len(names)))
    return {
        name: _node(name, radius * cos(angle), radius * sin(angle), ring=ring)
        for name, angle in zip(names, angles, strict=True)
    }


def _node(name: str, x: float, y: float, *, ring: int) -> Node:
    # labels grow toward the nearer edge of the frame, so the circles leave space there
    anchor = "middle" if abs(x) < 0.1 else "start" if x > 0 else "end"
    return Node(
        name,
        clip(name, LABEL),
        WIDTH / 2 + x * (WIDTH / 2 - 180),
        HEIGHT / 2 + y * (HEIGHT / 2 - 24),
        anchor,
        ring,
    )


def _line(edge: Edge, nodes: Mapping[str, Node], *, named: bool) -> Line:
    a, b = nodes[edge.source], nodes[edge.target]
    label = edge.predicate if named else ""
    return Line(edge, a.x, a.y, b.x, b.y, label, 0.8 + 2.2 * edge.weight)
