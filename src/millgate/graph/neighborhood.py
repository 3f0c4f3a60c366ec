"""Neighborhood: the given edges around some nodes, loaded outward hop by hop.

Nodes begin with a charge. A hop passes it on over the edges, less by their weight and by the leak, and each further hop
follows the nodes that most of it reached. The edges read at one node and the nodes followed in one hop are capped, so
that a hub costs no more than any other node.
"""

from collections.abc import Mapping, Sequence
from heapq import nlargest

from millgate.protocols import EdgeStore
from millgate.types import Edge, node_key

# Bounds on what one question reads of the graph. A node with more edges is a hub, whose further edges say little.
START_EDGES = 1000  # edges read at each of the first nodes, in each direction; chosen, not measured
FAN_OUT = 8  # edges read at each node further out, as many as paths follow (graph.fan_out)
MAX_NODES = 16  # nodes followed in one hop, those that most reaches: at most 256 edges


def find_nodes(edges: EdgeStore, names: Sequence[str], *, tenant: str) -> dict[str, str]:
    """Those of some names that have edges: from the form in which names are compared to how an edge spells it."""
    known: dict[str, str] = {}
    for edge in edges.edges_touching(tenant, names, limit=1):
        for end in (edge.source, edge.target):
            known.setdefault(node_key(end), end)
    asked = dict.fromkeys(map(node_key, names))
    return {key: known[key] for key in asked if key in known}


def neighborhood(
    edges: EdgeStore,
    charges: Mapping[str, float],
    *,
    tenant: str,
    hops: int = 1,
    leak: float = 1.0,
    floor: float = 0.0,
) -> list[tuple[Edge, ...]]:
    """The edges around the charged nodes: of the first hop, of the second, and so on, strongest first in each.

    Each edge comes once. A node that less than `floor` reaches is not followed.
    """
    found: dict[tuple[str, str, str], Edge] = {}
    strength: dict[str, float] = {}
    for node, charge in charges.items():
        strength[node_key(node)] = max(charge, strength.get(node_key(node), 0.0))
    by_hop: list[tuple[Edge, ...]] = []
    frontier, limit = list(strength), START_EDGES
    while frontier and len(by_hop) < hops:
        touching = edges.edges_touching(tenant, frontier, limit=limit)
        new = [e for e in touching if (e.source, e.predicate, e.target) not in found]
        found |= {(e.source, e.predicate, e.target): e for e in new}
        by_hop.append(tuple(new))
        reached: dict[str, float] = {}
        for edge in new:
            source, target = node_key(edge.source), node_key(edge.target)
            for here, there in ((source, target), (target, source)):
                signal = strength.get(here, 0.0) * edge.weight * leak
                if there not in strength and signal >= floor and signal > 0:
                    reached[there] = max(signal, reached.get(there, 0.0))
        frontier = nlargest(MAX_NODES, reached, key=reached.__getitem__)
        strength |= reached
        limit = FAN_OUT
    return [hop for hop in by_hop if hop]
