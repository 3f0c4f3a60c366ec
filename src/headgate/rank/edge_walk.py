"""Carry: mass that given knowledge edges take from where we are to what they lead to.

Nodes are names or chunk ids, compared without case; edges work both ways. A signal is charge × weight ×
leak, weak ones are discarded, and a node keeps the strongest that reaches it.
"""

from collections.abc import Iterable, Mapping, Sequence

from headgate.types import Edge

Links = dict[str, list[tuple[str, float]]]


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
