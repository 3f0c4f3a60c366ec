"""Paths: edges between named things, the edges around some of them, and the paths that connect them.

A name is compared without case and shown as an edge spells it: "Payments" and "payments" are one node.
A path is simple (no node twice), found breadth first, strongest first within a hop, and bounded by hops,
fan-out and count, so a hub or a cycle costs no more than any other node. It has one canonical line,
the same from whichever end it was found:  api -[depends_on]-> cache <-[uses]- worker.
A neighborhood is loaded outward hop by hop: nodes begin with a charge, a hop passes it on over the edges, less by their
weight and by the leak, and each further hop follows the nodes that most of it reached.
Base score = 0.50 + 0.10 · high-signal predicates − 0.05 if long or noisy, clamped to 0..1.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from heapq import nlargest
from typing import Annotated, Literal

from pydantic import Field, field_validator

from millgate.errors import InputError
from millgate.knowledge.edges import PREDICATE
from millgate.protocols import EdgeStore
from millgate.published.self_reference import HIGH_SIGNAL_PREDICATES, score_path
from millgate.text.names import entities, spelled_words
from millgate.types import Candidate, Chunk, Edge, Sifted, node_key
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, PositiveCount, Tuning

Direction = Literal["out", "in", "both"]
EdgesByNode = dict[str, list[tuple[str, str, Edge]]]
"""From the key of a node to its own name, its neighbor's name, and the edge between them."""

# nodes that may have all their edges read; of more, fan_out alone fills the 50 paths
READ_WHOLE = 4
# Bounds on what one question reads of the graph. A node with more edges is a hub, whose further edges say little.
START_EDGES = 1000  # edges read at each of the first nodes, in each direction; chosen, not measured
FAN_OUT = 8  # edges read at each node further out, as many as paths follow (graph.fan_out)
MAX_NODES = 16  # nodes followed in one hop, those that most reaches: at most 256 edges
_STRUCTURE = re.compile(r'[\[\]<>"]')


class GraphPolicy(Policy):
    """How far edges are followed, and what a path is worth."""

    max_hops: Tuning[Annotated[int, Field(ge=1, le=10)]] = 2
    """Longest path, in edges."""
    max_results: Tuning[Annotated[int, Field(ge=1, le=10_000)]] = 50
    """Most paths of one traversal."""
    fan_out: Tuning[PositiveCount] = (
        8  # 16 took 1.6 times as long and reached max_results before the third hop
    )
    """Strongest edges followed in each direction from one of many nodes; from a few, all that max_results allows."""
    anchors: Tuning[PositiveCount] = 5
    """Most nodes of a query from which paths start."""
    keep: Tuning[PositiveCount] = 10
    """Paths that become candidates; each holds at least one high-signal predicate."""
    high_signal: frozenset[str] = HIGH_SIGNAL_PREDICATES
    """Predicates that tell a reader something."""

    @field_validator("high_signal")
    @classmethod
    def _check_predicates(cls, names: frozenset[str]) -> frozenset[str]:
        bad = sorted(name for name in names if not PREDICATE.fullmatch(name))
        if bad:
            raise ValueError(f"{bad[0]!r} is not a predicate; use lower case, digits and _")
        return names


@dataclass(frozen=True, slots=True)
class Path:
    """A walk over edges; `nodes` has one more entry than `edges` and starts where the walk did."""

    nodes: tuple[str, ...]
    edges: tuple[Edge, ...] = ()
    strength: float = 1.0
    """Product of the edge weights."""

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates in walking order."""
        return tuple(edge.predicate for edge in self.edges)

    @property
    def line(self) -> str:
        """One canonical line of text: of both directions, the one with more forward arrows."""
        options = (
            _format_path(self.nodes, self.edges),
            _format_path(self.nodes[::-1], self.edges[::-1]),
        )
        return min(options, key=lambda option: (option.count("<-["), option))


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


def traverse(
    edges: EdgeStore,
    start: str,
    policy: GraphPolicy | None = None,
    *,
    tenant: str,
    direction: Direction = "both",
) -> list[Path]:
    """Paths that begin at `start`, shortest first, then strongest; ties by names."""
    if direction not in ("out", "in", "both"):
        raise InputError(f"direction is {direction!r}; it must be out, in or both")
    policy = policy or GraphPolicy()
    found: list[Path] = []
    frontier = [Path((start,))]
    for _ in range(policy.max_hops):
        slots_left = policy.max_results - len(found)
        if slots_left <= 0 or not frontier:
            break
        # more ends would give more paths than may be returned
        frontier = frontier[:slots_left]
        ends = list(dict.fromkeys(node_key(path.nodes[-1]) for path in frontier))
        # some of the edges of a path's end lead back along the path
        limit = slots_left + policy.max_hops if len(ends) <= READ_WHOLE else policy.fan_out
        touching = edges.edges_touching(tenant, ends, direction=direction, limit=limit)
        frontier = _extend(frontier, _neighbors(ends, touching, direction), slots_left)
        found += frontier
    return found


def base_score(path: Path, policy: GraphPolicy) -> float:
    """The base score of a path."""
    return score_path(path.predicates, high_signal=policy.high_signal)


def anchors(
    query: str, edges: EdgeStore, policy: GraphPolicy, *, tenant: str, project: str = ""
) -> tuple[str, ...]:
    """The nodes that a query names, as the graph spells them: its proper names first, then its longest runs of words.

    The project that the caller works on comes last.
    """
    named = [*_mentions(query), *([project] if project else [])]
    keys = map(node_key, named)
    asked = list(dict.fromkeys(k.replace(" ", by) for k in keys for by in " _-"))
    if not asked:
        return ()
    return tuple(find_nodes(edges, asked, tenant=tenant).values())[: policy.anchors]


def paths(anchors: Sequence[str], edges: EdgeStore, policy: GraphPolicy, *, tenant: str) -> Sifted:
    """Paths from the anchors as candidates of source "graph", all of them added here.

    The first `keep` with a high-signal predicate are kept, best score first; the rest is dropped with a reason.
    """
    walks: dict[str, Path] = {}
    for start in anchors:
        for path in traverse(edges, start, policy, tenant=tenant):
            walks.setdefault(node_key(path.line), path)
    judged: list[Candidate] = []
    kept = 0
    for path in walks.values():
        candidate = _as_candidate(path, policy)
        telling = any(p in policy.high_signal for p in path.predicates)
        if telling and kept < policy.keep:
            kept += 1
        else:
            code = NoteCode.TOO_MANY_PATHS if telling else NoteCode.NO_SIGNAL
            candidate = candidate.with_note(Stage.GRAPH, Fate.DROP, code, keep=policy.keep)
        judged.append(candidate)
    judged.sort(key=lambda c: (-c.score, c.chunk.text))
    return Sifted.split(judged, added=judged)


def _format_path(nodes: tuple[str, ...], edges: tuple[Edge, ...]) -> str:
    parts = [_quote(nodes[0])]
    for here, e, there in zip(nodes, edges, nodes[1:], strict=False):
        leaves = node_key(e.source) == node_key(here)
        arrow = f"-[{e.predicate}]->" if leaves else f"<-[{e.predicate}]-"
        parts += [arrow, _quote(there)]
    return " ".join(parts)


def _neighbors(ends: list[str], touching: list[Edge], direction: Direction) -> EdgesByNode:
    """The neighbors of each end, with the edge to each, strongest first; self-loops are left out."""
    neighbors: EdgesByNode = {node_key(end): [] for end in ends}
    for e in touching:
        source, target = node_key(e.source), node_key(e.target)
        if source == target:
            continue
        if direction != "in" and source in neighbors:
            neighbors[source].append((e.source, e.target, e))
        if direction != "out" and target in neighbors:
            neighbors[target].append((e.target, e.source, e))
    return neighbors


def _extend(frontier: list[Path], neighbors: EdgesByNode, slots_left: int) -> list[Path]:
    """The paths of the frontier made one edge longer by a new node, the best `slots_left` of them."""
    options = [
        (path.strength * e.weight, path, here, there, e)
        for path in frontier
        for here, there, e in neighbors[node_key(path.nodes[-1])]
        if node_key(there) not in map(node_key, path.nodes)
    ]
    if len(options) > slots_left:  # only paths that can be among the best are built and sorted
        floor = nlargest(slots_left, (option[0] for option in options))[-1]
        options = [option for option in options if option[0] >= floor]
    longer = [
        Path((*path.nodes[:-1], here, there), (*path.edges, e), strength)
        for strength, path, here, there, e in options
    ]
    return sorted(longer, key=lambda p: (-p.strength, p.nodes, p.predicates))[:slots_left]


def _as_candidate(path: Path, policy: GraphPolicy) -> Candidate:
    line, sources = path.line, list(dict.fromkeys(e.provenance for e in path.edges if e.provenance))
    chunk = Chunk(
        id="graph:" + sha256(line.encode()).hexdigest()[:16],
        text=line,
        document=sources[0] if sources else "",
        source="graph",
        metadata={"nodes": path.nodes, "predicates": path.predicates, "provenance": tuple(sources)},
    )
    found = Candidate(chunk, base_score(path, policy))
    return found.with_note(Stage.GRAPH, Fate.ADD, NoteCode.PATH, edges=len(path.edges))


def _mentions(query: str) -> list[str]:
    """Names in the query, then its runs of up to three words, longest first."""
    # a question names things early; a pasted text is not a question
    found = list(spelled_words(query))[:32]
    runs = [
        " ".join(found[i : i + size]) for size in (3, 2, 1) for i in range(len(found) - size + 1)
    ]
    return [*entities(query), *runs]


def _quote(name: str) -> str:
    """The name, quoted if it could be mistaken for an arrow, so that no name can forge a path."""
    return json.dumps(name, ensure_ascii=False) if _STRUCTURE.search(name) else name
