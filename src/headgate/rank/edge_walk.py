"""Edge walk: signals that travel along edges, from where we are to what they lead to.

A signal is charge × weight × leak, and weak ones are discarded. `carry` follows given knowledge edges: nodes are names
or chunk ids, compared without case, edges work both ways, and a node keeps the strongest signal that reaches it.

`fire` is leaky integrate-and-fire over a graph. Seeds start with charge 1.0. In each of at most 3 synchronous steps a
node sends what reached it in the step before. A signal never goes back to the node it came from, so one edge of weight
.5 brings .425 and no more. A node's potential adds up over all incoming signals; at 0.5 it fires into the candidate
set. Nodes are visited in the order of their ids, so sums are the same on every machine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from headgate.protocols import Postings
from headgate.rank.lexical import Ints, number_keys
from headgate.rank.name_hop import gather
from headgate.types import Edge

Links = dict[str, list[tuple[str, float]]]
Edges = Callable[[str], Iterable[tuple[str, float]]]


def links_of(edges: Iterable[Edge]) -> Links:
    """Edges by either end (lower case), strongest first."""
    links: Links = {}
    for edge in edges:
        links.setdefault(edge.source.lower(), []).append((edge.target, edge.weight))
        links.setdefault(edge.target.lower(), []).append((edge.source, edge.weight))
    return {node: sorted(found, key=lambda n: (-n[1], n[0])) for node, found in links.items()}


def carry(
    charges: Mapping[str, float], edges: Sequence[Edge], *, leak: float, floor: float, hops: int
) -> dict[str, float]:
    """What reaches each node that was not charged from the start."""
    links = links_of(edges)
    started = {node.lower() for node in charges}
    reached: dict[str, float] = {}
    current = {node.lower(): charge for node, charge in charges.items()}
    for _ in range(hops):
        arriving: dict[str, float] = {}
        for node in sorted(current):
            for other, weight in links.get(node, ()):
                signal = current[node] * weight * leak
                if signal >= floor and other.lower() not in started:
                    arriving[other] = max(arriving.get(other, 0.0), signal)
        fresh = {node: force for node, force in arriving.items() if force > reached.get(node, 0.0)}
        reached |= fresh
        current = {node.lower(): force for node, force in fresh.items()}
    return reached


def fire(
    seeds: Sequence[str],
    edges: Edges,
    *,
    leak: float = 0.85,
    floor: float = 0.02,
    hops: int = 3,
    threshold: float = 0.5,
) -> dict[str, float]:
    """The potential of every node that fires (seeds aside), by id."""
    # node -> what it has to pass on, by the node that it came from
    charges: dict[str, dict[str, float]] = {seed: {"": 1.0} for seed in sorted(seeds)}
    potential: dict[str, float] = {}
    for _ in range(hops):
        arriving: dict[str, dict[str, float]] = {}
        for node in sorted(charges):
            came, total = charges[node], sum(charges[node].values())
            for other, weight in sorted(edges(node)):
                signal = (total - came.get(other, 0.0)) * weight * leak
                if signal >= floor and other != node:
                    inbox = arriving.setdefault(other, {})
                    inbox[node] = inbox.get(node, 0.0) + signal
        for node in sorted(arriving):
            potential[node] = potential.get(node, 0.0) + sum(arriving[node].values())
        charges = arriving
    started = set(seeds)
    return {n: p for n, p in sorted(potential.items()) if p >= threshold and n not in started}


class Neighbors:
    """Edges of a node, as they are asked for: given ones, lines beside it, chunks that share its rare names.

    Lines beside it have the weight `beside`. Names are rare in up to `limit` chunks, and proper by `share`.
    """

    def __init__(
        self, view: Postings, edges: Sequence[Edge], *, beside: float, limit: int, share: float
    ) -> None:
        self._view, self._links = view, links_of(edges)
        self._weight, self._limit, self._share = beside, limit, share

    def edges(self, node: str) -> Iterator[tuple[str, float]]:
        """Where signals from this node go, and with what weight."""
        yield from self._links.get(node.lower(), ())
        ords = self._view.find([node])
        if ords[0] >= 0:
            yield from self._beside(ords)
            yield from self._sharing(ords)

    def _beside(self, ords: Ints) -> Iterator[tuple[str, float]]:
        if not self._view.conversational:
            return
        rank, standing = self._view.order()
        at = rank[ords[0]] + np.array([-1, 1])
        near = standing[at[(at >= 0) & (at < len(standing))]]
        yield from ((id, self._weight) for id in self._view.ids(near))

    def _sharing(self, ords: Ints) -> Iterator[tuple[str, float]]:
        """A name in df chunks gives each of the others 1 / (df - 1): a name shared by two wires them fully."""
        found = gather(self._view, ords, limit=self._limit, share=self._share)
        others = found.ords != ords[0]
        weight = 1.0 / np.maximum(found.counts[found.which[others]] - 1, 1)
        near, slots = number_keys(found.ords[others])
        total = np.minimum(np.bincount(slots, weight, minlength=len(near)), 1.0)
        yield from zip(self._view.ids(near), total.tolist(), strict=True)
