"""Edge walk: signals that travel along edges, from where we are to what they lead to.

A signal is charge × weight × leak, and weak ones are discarded. `carry` follows given knowledge edges: they work both
ways, and a node keeps the strongest signal that reaches it. A node is a chunk or a document of several, by its id as it
is spelled, or a name, however its letters are cased: "README" and "readme" are one name, and two chunks.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headgate.protocols import Snapshot
from headgate.types import Edge, node_key


class Node(NamedTuple):
    """Where an edge begins or ends: the id of a chunk or of a document, or a name in lower case."""

    text: str
    is_chunk: bool = False


def first_part(document: str) -> str:
    """The id of the first chunk of a document that was split."""
    return f"{document}#0"


Links = Mapping[Node, Sequence[tuple[Node, float]]]


def link_nodes(edges: Sequence[Edge], view: Snapshot) -> Links:
    """The nodes linked to each node, those of the strongest edge first."""
    ends = list(dict.fromkeys(end for edge in edges for end in (edge.source, edge.target)))
    found = np.maximum(view.find(ends), view.find(list(map(first_part, ends)))).tolist()
    nodes = {
        end: Node(end, is_chunk=True) if ord >= 0 else Node(node_key(end))
        for end, ord in zip(ends, found, strict=True)
    }
    links: dict[Node, list[tuple[Node, float]]] = {}
    for edge in edges:
        source, target = nodes[edge.source], nodes[edge.target]
        links.setdefault(source, []).append((target, edge.weight))
        links.setdefault(target, []).append((source, edge.weight))
    return {node: sorted(near, key=lambda n: (-n[1], n[0])) for node, near in links.items()}


def carry(
    charges: Mapping[Node, float], links: Links, *, leak: float, floor: float, hops: int
) -> dict[Node, float]:
    """What reaches each node that was not charged from the start."""
    reached: dict[Node, float] = {}
    current = charges
    for _ in range(hops):
        arriving: dict[Node, float] = {}
        for node in sorted(current):
            for other, weight in links.get(node, ()):
                signal = current[node] * weight * leak
                if signal >= floor and other not in charges:
                    arriving[other] = max(arriving.get(other, 0.0), signal)
        current = {
            node: signal for node, signal in arriving.items() if signal > reached.get(node, 0.0)
        }
        reached |= current
    return reached
