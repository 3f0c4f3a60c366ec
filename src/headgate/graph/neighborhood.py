"""Neighborhood: the given edges around some nodes, loaded outward hop by hop.

The first hop reads the edges of the nodes themselves; each further hop those of the nodes just reached. Both the edges
read at one node and the nodes followed in one hop are capped, strongest first, so that a hub costs no more than any
other node.
"""

from collections.abc import Sequence

from headgate.protocols import EdgeStore
from headgate.types import Edge

# Bounds on what one question reads of the graph. Chosen, not measured: a node with more edges is a hub, whose further
# edges say little, and each hop must stay within one read of the store.
START_EDGES = 1000  # edges read at each of the first nodes, in each direction
FAN_OUT = 64  # edges read at each node further out
MAX_NODES = 1024  # nodes followed in one hop


def neighborhood(
    edges: EdgeStore, nodes: Sequence[str], *, tenant: str, hops: int = 1
) -> tuple[Edge, ...]:
    """The edges within `hops` of the nodes, nearest hop first, strongest first within a hop, each once."""
    found: dict[tuple[str, str, str], Edge] = {}
    seen = set(nodes)
    frontier, limit = list(nodes), START_EDGES
    for _ in range(hops):
        if not frontier:
            break
        reached: list[str] = []
        for edge in edges.edges_touching(tenant, frontier, limit=limit):
            found.setdefault((edge.source, edge.predicate, edge.target), edge)
            reached += (edge.source, edge.target)
        frontier = [node for node in dict.fromkeys(reached) if node not in seen][:MAX_NODES]
        seen.update(frontier)
        limit = FAN_OUT
    return tuple(found.values())
