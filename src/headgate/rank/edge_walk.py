"""Edge walk: signals that travel along edges, from where we are to what they lead to.

A signal is charge × weight × leak, and weak ones are discarded. `carry` follows given knowledge edges: they work both
ways, and a node keeps the strongest signal that reaches it. A node is a chunk or a document of several, by its id as it
is spelled, or a name, however its letters are cased: "README" and "readme" are one name, and two chunks.

`ChunkGraph` gives the edges of a node as they are asked for, for leaky integrate-and-fire
(published/entropy_gating.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headgate.protocols import Snapshot
from headgate.rank.lexical import Ints, number_keys
from headgate.rank.name_hop import find_name_postings
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


class ChunkGraph:
    """Edges of a node, as they are asked for: given ones, lines beside it, chunks that share its rare names.

    Lines beside it have the weight `beside`. Names are rare in up to `limit` chunks, and proper by `share`.
    """

    def __init__(
        self, view: Snapshot, edges: Sequence[Edge], *, beside: float, limit: int, share: float
    ) -> None:
        self._view, self._links = view, link_nodes(edges, view)
        self._weight, self._limit, self._share = beside, limit, share

    def edges(self, node: Node) -> Iterator[tuple[Node, float]]:
        """Where signals from this node go, and with what weight."""
        yield from self._links.get(node, ())
        ords = self._view.find([node.text])
        if node.is_chunk and ords[0] >= 0:
            yield from self._beside(ords)
            yield from self._sharing(ords)

    def _beside(self, ords: Ints) -> Iterator[tuple[Node, float]]:
        if not self._view.conversational:
            return
        rank, standing = self._view.reading_order()
        at = rank[ords[0]] + np.array([-1, 1])
        near = standing[at[(at >= 0) & (at < len(standing))]]
        yield from ((Node(id, is_chunk=True), self._weight) for id in self._view.ids(near))

    def _sharing(self, ords: Ints) -> Iterator[tuple[Node, float]]:
        """A name in df chunks gives each of the others 1 / (df - 1): a name shared by two wires them fully."""
        found = find_name_postings(self._view, ords, limit=self._limit, share=self._share)
        others = found.ords != ords[0]
        weight = 1.0 / np.maximum(found.counts[found.which[others]] - 1, 1)
        near, slots = number_keys(found.ords[others])
        total = np.minimum(np.bincount(slots, weight, minlength=len(near)), 1.0)
        nodes = [Node(id, is_chunk=True) for id in self._view.ids(near)]
        yield from zip(nodes, total.tolist(), strict=True)
