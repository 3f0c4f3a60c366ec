"""Find: the work of those steps that look for chunks, over every collection that a request names.

`load_whole` reads a collection instead of ranking it, `load_edges` fetches the knowledge edges around what was found,
`penalize_known` brings stored fingerprints to `penalize`, and `search_again` asks in other words.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headgate.graph.neighborhood import neighborhood
from headgate.notes import Fate, NoteCode, Stage
from headgate.pipeline.resources import Policies, Resources
from headgate.protocols import Postings, Store
from headgate.stages.expand import depth, fuse, gather, variants
from headgate.stages.gate import measure_all
from headgate.stages.penalize import PenalizePolicy, penalize
from headgate.stages.propagate import PropagatePolicy, Start, start_of
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.text.fingerprint import KIND
from headgate.types import Candidate, Chunk, Edge, Request, Sifted

if TYPE_CHECKING:
    import numpy.typing as npt

Starts = Mapping[str, Start]
"""Where signals start, by collection."""


def load_whole(
    query: str,
    chunks: Sequence[Chunk],
    view: Postings | None,
    policy: RetrievePolicy,
    *,
    vector: "npt.ArrayLike | None",
) -> Sifted:
    """Every chunk in reading order, with the score that retrieval gives it; without an index all score alike."""
    scores = dict.fromkeys((c.id for c in chunks), 1.0)
    if view is not None and chunks:
        wide = policy.model_copy(update={"keep": len(chunks)})
        scores = {c.chunk.id: c.score for c in retrieve(query, view, wide, vector=vector).kept}
    measured = measure_all([chunk.text for chunk in chunks])
    loaded = tuple(
        Candidate(chunk, scores.get(chunk.id, 0.0)).with_note(
            Stage.RETRIEVE, Fate.ADD, NoteCode.LOADED_WHOLE, entropy=bits
        )
        for chunk, (bits, _) in zip(chunks, measured, strict=True)
    )
    return Sifted(kept=loaded, added=loaded)


def load_edges(
    request: Request,
    found: Mapping[str, Sifted],
    views: Mapping[str, Postings],
    store: Store | None,
    policy: PropagatePolicy,
) -> tuple[Starts, Sequence[Edge]]:
    """Where signals start in each collection, and the edges that the store, if it has any, gives around it."""
    starts: dict[str, Start] = {}
    for name, view in views.items():
        start = start_of(found[name], request.query, view, policy)
        if start is not None:
            starts[name] = start
    if store is None or not starts:
        return starts, ()
    nodes = [node for name, start in starts.items() for node in start.nodes(views[name])]
    unique = list(dict.fromkeys(nodes))
    return starts, neighborhood(store, unique, tenant=request.tenant, hops=policy.edge_hops)


def penalize_known(
    candidates: Sequence[Candidate],
    request: Request,
    resources: Resources,
    policy: PenalizePolicy,
) -> Sifted:
    """Penalize by the window, with the fingerprints that the store has for texts not in the cache."""
    cache = resources.cache
    unread = cache.unknown([c.chunk.text for c in candidates])
    # copies have one fingerprint
    new = {c.chunk.text: c.chunk for c, is_new in zip(candidates, unread, strict=True) if is_new}
    fingerprints: dict[str, bytes] = {}
    for name in request.collections:
        if ids := [chunk.id for chunk in new.values() if chunk.collection == name]:
            fingerprints |= resources.store.attachments(request.tenant, name, KIND, ids)
    return penalize(
        candidates,
        request.window,
        policy,
        fingerprints=fingerprints,
        best_effort=request.best_effort,
        cache=cache,
    )


def search_again(
    request: Request,
    fresh: Sifted,
    views: Mapping[str, Postings],
    resources: Resources,
    policy: Policies,
    *,
    edges: Sequence[Edge],
    project: str,
) -> Sifted:
    """What was new, fused with what other queries bring that is new too."""
    known = {c.chunk.id for c in (*fresh.kept, *fresh.dropped)}
    most = depth(request.k, policy.expand)
    wider = policy.retrieve.model_copy(update={"keep": most + len(known)})
    queries = variants(
        request.query, policy.expand, edges=edges, project=project, window=request.window
    )
    passes = [
        retrieve(query, view, wider, vector=resources.vectors(query)).kept
        for query in queries
        for view in views.values()
    ]
    more = penalize_known(gather(passes, known)[:most], request, resources, policy.penalize)
    return fuse(fresh.kept, more, policy.expand)
