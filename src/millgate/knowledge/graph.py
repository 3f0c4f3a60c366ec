"""Graph: the knowledge of one tenant, as `gate.graph` gives it.

Edges are linked, looked up and followed. A slice is a part of a conversation around one turn, signed with the
tenant's secret: its holder can show that the turns were admitted (admissibility.py).
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from millgate.calls.loop import async_version
from millgate.errors import InputError
from millgate.knowledge.admissibility import admit as with_token
from millgate.knowledge.admissibility import load as slice_from
from millgate.knowledge.admissibility import sign, verify
from millgate.knowledge.edges import LoadResult, chunk_edges, edge, link_edges, read_edges
from millgate.knowledge.paths import Direction, GraphPolicy, Path, base_score, traverse
from millgate.knowledge.slices import Slice, SlicePolicy, SliceTurn, slice_around
from millgate.protocols import Clock, Store
from millgate.types import Edge
from millgate.types.check import explain_all_keywords

DAY = 86_400.0


class ScoredPath(NamedTuple):
    """A path and its base score."""

    path: Path
    score: float


@explain_all_keywords
class Graph:
    """The edges of one tenant, the paths over them, and slices of its conversations."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        policy: GraphPolicy | None = None,
        slice_policy: SlicePolicy | None = None,
        *,
        clock: Clock = time.time,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._policy = policy or GraphPolicy()
        self._slice_policy = slice_policy or SlicePolicy()
        self._clock = clock

    def link(self, edges: Iterable[Edge]) -> int:
        """Link edges; linking one again sets its weight and provenance. How many are new or changed.

        For example: `gate.graph.link([Edge("falcon", "depends_on", "redis")])`.
        """
        checked = [
            edge(e.source, e.predicate, e.target, weight=e.weight, provenance=e.provenance)
            for e in _edges(edges)
        ]
        return self._store.link(self._tenant, checked)

    def unlink(self, edges: Iterable[Edge]) -> int:
        """Remove edges, found by source, predicate and target; how many went.

        For example: `gate.graph.unlink([Edge("falcon", "depends_on", "redis")])`.
        """
        return self._store.unlink(self._tenant, list(_edges(edges)))

    def load(self, file: str | FilePath) -> LoadResult:
        """Link the edges of a .csv, .tsv, .jsonl or .ndjson file; bad lines are skipped and counted.

        For example: `gate.graph.load("services.csv")`.
        """
        return link_edges(self._store, self._tenant, read_edges(FilePath(file)))

    def load_collection(self, collection: str) -> LoadResult:
        """Link what stands in the documents of a collection: links, headings, imports.

        For example: `gate.graph.load_collection("main")`.
        """
        chunks = self._store.scan(self._tenant, collection)
        return link_edges(self._store, self._tenant, chunk_edges(chunks))

    def edges(self, node: str, *, direction: Direction = "both", limit: int = 100) -> list[Edge]:
        """The edges that touch a node, strongest first.

        For example: `gate.graph.edges("falcon", direction="out")`.
        """
        return self._store.edges_touching(self._tenant, [node], direction=direction, limit=limit)

    def paths(
        self,
        start: str,
        *,
        direction: Direction = "both",
        max_hops: int | None = None,
        max_results: int | None = None,
    ) -> list[ScoredPath]:
        """The paths that begin at a node, shortest first, then strongest, with their base scores.

        For example: `gate.graph.paths("falcon", max_hops=2)`.
        """
        given = {"max_hops": max_hops, "max_results": max_results}
        update = {name: value for name, value in given.items() if value is not None}
        policy = self._policy.model_copy(update=update)
        found = traverse(self._store, start, policy, tenant=self._tenant, direction=direction)
        return [ScoredPath(path, base_score(path, policy)) for path in found]

    def cut_slice(self, anchor: str, *, collection: str = "turns", admit: bool = False) -> Slice:
        """Cut the turns around one turn and sign them; with `admit`, the turns get the slice's token.

        For example: `gate.graph.cut_slice("turn-7", admit=True)`.
        """
        chunks = [c for c in self._store.scan(self._tenant, collection) if c.source == "turn"]
        signed = sign(
            slice_around(map(SliceTurn.from_chunk, chunks), anchor, self._slice_policy),
            self._store.secret(self._tenant),
        )
        if admit:
            ids = [turn.id for turn in signed.turns]
            self._store.amend_chunks(
                self._tenant,
                collection,
                ids,
                lambda chunk: next(iter(with_token([chunk], signed)), chunk),
            )
        return signed

    def verify(self, slice: Slice | Mapping[str, Any]) -> bool:
        """Whether a slice is, unchanged, what was signed for this tenant.

        For example: `gate.graph.verify(slice)`.
        """
        shown = slice if isinstance(slice, Slice) else slice_from(slice)
        return verify(shown, self._store.secrets(self._tenant), now=self._clock())

    def rotate_secret(self, *, days: float = 30.0) -> float:
        """Sign with a new secret from now on; until when the former one still verifies.

        For example: `gate.graph.rotate_secret(days=7)`.
        """
        expires = self._clock() + days * DAY
        self._store.rotate(self._tenant, expires=expires)
        return expires

    alink = async_version(link)
    aunlink = async_version(unlink)
    aload = async_version(load)
    aload_collection = async_version(load_collection)
    aedges = async_version(edges)
    apaths = async_version(paths)
    acut_slice = async_version(cut_slice)
    averify = async_version(verify)
    arotate_secret = async_version(rotate_secret)


def _edges(given: Iterable[Edge]) -> Iterator[Edge]:
    """The edges, each of which must be one."""
    if not isinstance(given, Iterable):
        raise InputError(
            f"edges is {type(given).__name__}, not several", hint="put the one edge into a list"
        )
    for one in given:
        if not isinstance(one, Edge):
            raise InputError(
                f"an edge is {type(one).__name__}, not an Edge",
                hint='from millgate.types import Edge; Edge("falcon", "depends_on", "redis")',
            )
        yield one
