"""Edge walk: signals that travel along given knowledge edges, from where we are to what they lead to.

A signal is charge × weight × leak, and weak ones are discarded. Edges work both ways, and a node keeps the strongest
signal that reaches it. A node is a chunk or a document of several, by its id as it
is spelled, or a name, however its letters are cased: "README" and "readme" are one name, and two chunks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

import numpy as np

from millgate.protocols import Postings, Snapshot
from millgate.rank.lexical import Floats
from millgate.rank.name_hop import (
    NameFlow,
    NameRules,
    ReachedChunks,
    ScoreBoost,
    join_reached,
    posting_shares,
)
from millgate.rank.name_postings import NamePostings, find_written_names
from millgate.rank.query_share import receptivity
from millgate.rank.seeds import PropagationSeeds
from millgate.types import Edge, node_key

# Bounds on what edges lead to, chosen so that a request over a large graph stays within some milliseconds.
MAX_NAMES = 32  # names that edges lead to, whose chunks are found
MAX_PARTS = 64  # chunks of a document among which the best is chosen


@dataclass(frozen=True, slots=True)
class EdgeRules:
    """How far signals travel along edges, and what is left of them."""

    charge: float  # of a name of the query, or of the best seed
    leak: float  # what is left of a signal after one edge
    floor: float  # weaker signals are discarded
    hops: int


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


def edge_charges(seeds: PropagationSeeds, view: Snapshot, charge: float) -> dict[Node, float]:
    """Where given edges are followed from, and with what charge.

    The names of the query and, as chunks, its words have `charge`; the best chunks and their documents
    their share of it, of which their names get a part each.
    """
    charges = dict.fromkeys(map(Node, seeds.query_names), charge)
    # a word of the query may be the id of a chunk too
    charges |= dict.fromkeys((Node(word, is_chunk=True) for word in seeds.query_names), charge)
    if not len(seeds.ords):
        return charges
    masses = (charge * (seeds.strength / seeds.strength[0]) ** 2).tolist()
    written = seeds.written_names or ((),) * len(masses)
    chunks = seeds.chunks or (None,) * len(masses)
    ids, names_held = view.ids(seeds.ords), view.names(seeds.ords)
    for id, held, chunk, own, mass in zip(ids, names_held, chunks, written, masses, strict=True):
        charges[Node(id, is_chunk=True)] = mass
        if chunk is not None and chunk.document:
            charges.setdefault(Node(chunk.document, is_chunk=True), mass)
        labels = dict.fromkeys((*view.labels(held), *own))
        for label in labels:
            charges.setdefault(Node(label), mass / len(labels))
    return charges


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


def follow_edges(
    view: Snapshot,
    seeds: PropagationSeeds,
    edges: Sequence[Edge],
    by: EdgeRules,
    names_by: NameRules,
    *,
    gain: float,
) -> ScoreBoost | None:
    """What given edges lead to: chunks by their ids, and those that write a name, in whichever case; None if nothing.

    A chunk that one edge of weight 1 leads to from a name of the query gains `gain`, and less the farther and the
    weaker the way is. Of the chunks that write a name, the one that holds most of the query gains most.
    """
    charges = edge_charges(seeds, view, by.charge)
    links = link_nodes(edges, view)
    carried = carry(charges, links, leak=by.leak, floor=by.floor, hops=by.hops)
    if not carried:
        return None
    names, held = find_written_names(view, _strongest_names(carried), limit=names_by.limit)
    masses = np.array([carried[Node(name)] for name in names])
    posting_share = posting_shares(held, gamma=names_by.spread, title=names_by.title)
    flow = masses[held.which] * np.minimum(posting_share, 1.0)
    by_names = receive_by_name(held, flow, seeds.hits, seeds.term_weight, least=names_by.least)
    reached = join_reached(by_names, _find_linked(view, carried, seeds.scores.every))
    whole = by.charge * by.leak or 1.0
    boost = gain * np.minimum(reached.boost / whole, 1.0)
    return ScoreBoost(ReachedChunks(reached.ords, boost), (NameFlow(held, flow, names),))


def _strongest_names(carried: Mapping[Node, float]) -> list[str]:
    """The names that most mass was carried to."""
    names = {node.text: mass for node, mass in carried.items() if not node.is_chunk}
    return nlargest(MAX_NAMES, names, key=names.__getitem__)


def _find_linked(view: Snapshot, carried: Mapping[Node, float], scores: Floats) -> ReachedChunks:
    """The chunks that edges lead to by their ids; of a document that was split, the one that `scores` best."""
    nodes = sorted(node for node in carried if node.is_chunk)
    linked = view.find([node.text for node in nodes])
    for place in np.flatnonzero(linked < 0).tolist():
        parts = view.find([f"{nodes[place].text}#{n}" for n in range(MAX_PARTS)])
        parts = parts[parts >= 0]
        if len(parts):
            linked[place] = parts[np.argmax(scores[parts])]
    masses = np.array([carried[node] for node in nodes])[linked >= 0]
    ords, slots = np.unique(linked[linked >= 0], return_inverse=True)
    total = np.zeros(len(ords))
    np.add.at(total, slots, masses)
    return ReachedChunks(ords, total)


def receive_by_name(
    names: NamePostings, posting_flow: Floats, hits: Postings, term_weight: Floats, *, least: float
) -> ReachedChunks:
    """The chunks that mass flows to which no seed gave. Of those that hold a name, the one that holds most of the query
    takes all that flows to it, the others less.
    """
    ords, slots = np.unique(names.ords, return_inverse=True)
    (open_to,) = receptivity(hits, term_weight, ords[:0], ords, least=least)
    taken = open_to[slots]
    most = np.zeros(len(names.keys))
    np.maximum.at(most, names.which, taken)
    share = np.divide(taken, most[names.which], out=np.ones_like(taken), where=taken > 0)
    boost = np.zeros(len(ords))
    np.add.at(boost, slots, posting_flow * share)
    return ReachedChunks(ords, boost)
