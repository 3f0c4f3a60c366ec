"""Fire: leaky integrate-and-fire over a graph.

Seeds start with charge 1.0. In each of at most 3 synchronous steps a node sends what reached it in the step before:
charge × edge weight × 0.85, signals under 0.02 being discarded. A signal never goes back to the node it came from, so
one edge of weight .5 brings .425 and no more. A node's potential adds up over all incoming signals; at 0.5 it fires
into the candidate set. Nodes are visited in the order of their ids, so sums are the same on every machine.
"""

from collections.abc import Callable, Iterable, Sequence

Edges = Callable[[str], Iterable[tuple[str, float]]]


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
