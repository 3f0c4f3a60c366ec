"""Graph: the edges around a name as a picture, and the same edges in a table."""

import asyncio
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from headgate.gateway import Headgate
from headgate.graph.neighborhood import neighborhood
from headgate.service.auth import require_scope
from headgate.service.dashboard.graph_picture import HEIGHT, WIDTH, draw_graph
from headgate.service.dashboard.render import render
from headgate.service.dashboard.route import PageRoute
from headgate.service.paths import DASHBOARD
from headgate.service.request_state import Caller
from headgate.service.state import service_of

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
    node: Annotated[str, Query(max_length=1024)] = "",
    hops: Annotated[int, Query(ge=1, le=2)] = 1,
) -> Response:
    """The neighborhood of a name; without one, names to begin with."""
    gate = service_of(request).gate_for(caller)
    name = node.strip()
    names = [name] if name else []
    edges = await asyncio.to_thread(neighborhood, gate.store, names, tenant=gate.tenant, hops=hops)
    suggested = [] if edges else await asyncio.to_thread(suggest_names, gate)
    return render(
        request, "graph.html",
        node=name, hops=hops, edges=edges[:LISTED], total=len(edges), picture=draw_graph(name, edges) if edges else None,
        suggested=suggested, size=(WIDTH, HEIGHT),
    )  # fmt: skip


def suggest_names(gate: Headgate) -> list[str]:
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
