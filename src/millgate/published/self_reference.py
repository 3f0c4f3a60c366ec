"""Self-referential penalization, as published in "Self-Referential Context Penalization for RAG++ Context Gateway".

What the model's window already holds costs tokens and adds nothing. The caller sends the window's text, its blocks, or
a fingerprint of it; each candidate's overlap r with the window lowers its score:
    adjusted = max(0, base · (1 - weight · r^1.35))        weight .90 for documents and turns, .60 for graph paths
If too little is new, the gateway asks once more in other words. `compose_response` is the whole of it.

A fingerprint is sha256, simhash64 over tokens and minhash128 over shingles of 5 tokens (3 under 20), of the whole
window and of each span. Its numbers are stored for years, so they are computed in one place, text/fingerprint.py, which
docs/fingerprint.md restates in plain Python. From fingerprints alone r is the largest MinHash Jaccard with the window
or one of its spans; within 3 bits of a SimHash it is at least .90, and for an equal sha256 1.
Millgate measures exact token coverage instead if it knows the window's text or a sketch of it (docs/origins.md).
Nothing here makes, changes or drops an admissibility token: it is handed through.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from millgate.text.fingerprint import (
    MINHASH_PERM,
    SHINGLE,
    WindowFingerprint,
    fingerprint,
    fingerprints,
)
from millgate.text.stopwords import ENGLISH
from millgate.text.words import tokens

__all__ = [
    "HIGH_SIGNAL_PREDICATES",
    "MINHASH_PERM",
    "SHINGLE",
    "ContextGatewayRequest",
    "ContextGatewayResponse",
    "OverlapAssessment",
    "ScoredCandidate",
    "SpanFingerprint",
    "WindowFingerprintPayload",
    "adjust_score",
    "build_adjacent_queries",
    "build_gk_candidates",
    "build_rag_candidates",
    "build_window_fingerprint",
    "classify_overlap",
    "compose_response",
    "compute_overlaps",
    "compute_penalty",
    "expand_adjacent_semantic_space",
    "expansion_depth",
    "fuse_candidate_pools",
    "is_mostly_known",
    "minhash128",
    "pack_budgeted_response",
    "penalize_candidates",
    "score_path",
    "should_expand",
    "simhash64",
]

# -- what is asked, and with which window --------------------------------------------------------


class SpanFingerprint(BaseModel):
    """The fingerprint of one span."""

    span_id: str
    sha256: str
    simhash64: str
    minhash128: list[int]
    token_count: int


class WindowFingerprintPayload(BaseModel):
    """A window without its text, as `current_window_fingerprint` takes it."""

    version: int = 1
    global_sha256: str
    global_simhash64: str
    global_minhash128: list[int]
    spans: list[SpanFingerprint]
    sketch: dict[str, Any] | None = None


class ContextGatewayRequest(BaseModel):
    """A question, and what the model already sees."""

    query: str
    cwd: str = ""
    session_id: str = ""
    max_tokens: int = 500
    include_graph: bool = True
    k_rag: int = 5
    current_window_text: str = ""
    current_window_blocks: list[str] = Field(default_factory=list)
    current_window_fingerprint: WindowFingerprintPayload | None = None
    enable_self_ref_penalty: bool = True


def build_window_fingerprint(request: ContextGatewayRequest) -> WindowFingerprintPayload | None:
    """The window: as fingerprint if one is sent, else made of its blocks, else of its text cut into spans; or None."""
    blocks = request.current_window_blocks or [request.current_window_text]
    if request.current_window_fingerprint or not any(blocks):
        return request.current_window_fingerprint
    made = WindowFingerprint.of(blocks, sketch=False)
    return WindowFingerprintPayload.model_validate(made.to_json())


def simhash64(text: str) -> str:
    """The SimHash of a text over its tokens, as 16 hex digits."""
    return f"{fingerprint(text).simhash64:016x}"


def minhash128(text: str) -> list[int]:
    """The MinHash of a text over its shingles: 128 numbers."""
    return list(fingerprint(text).minhash128)


# -- candidates ----------------------------------------------------------------------------------

Source = Literal["rag", "gk"]
HIGH_SIGNAL_PREDICATES = frozenset({
    "works_on", "built_with", "has_feature", "has_component", "uses", "evolved_from", "has_service",
    "deployed_on", "is_a", "belongs_to", "tagged", "part_of", "author", "created", "description", "category",
    "depends_on", "conflicts_with", "extends", "resolves", "relates_to_project",
})  # fmt: skip
BASE_SCORE = 0.50  # of a path before its predicates count
SIGNAL_BONUS = 0.10
NOISE_PENALTY = 0.05
LONG_PATH = 2  # edges beyond which a path is long


class OverlapAssessment(BaseModel):
    """What a candidate has in common with the window."""

    exact_match: bool = False
    simhash_distance: int = 64
    overlap_ratio: float = 0.0
    penalty: float = 0.0
    reason: str = "not compared"


class ScoredCandidate(BaseModel):
    """A row of the search or a path of the graph, with its score before and after the penalty."""

    source: Source
    candidate_id: str
    text: str
    base_score: float
    adjusted_score: float
    overlap: OverlapAssessment = Field(default_factory=OverlapAssessment)
    metadata: dict[str, Any] = Field(default_factory=dict)


def build_rag_candidates(rag_results: Iterable[Mapping[str, Any]]) -> list[ScoredCandidate]:
    """Rows of a search as candidates: `id`, `content` or `text`, and `similarity` or else `score`."""
    return [
        _candidate("rag", str(row.get("id", at)), row.get("content") or row.get("text") or "",
                   row.get("similarity") or row.get("score") or 0.0, row.get("metadata") or {})
        for at, row in enumerate(rag_results)
    ]  # fmt: skip


def build_gk_candidates(gk_result: Mapping[str, Any]) -> list[ScoredCandidate]:
    """The paths of a traversal as candidates; a path is a list of edges with `source`, `predicate` and `target`."""
    found = []
    for path in gk_result.get("paths", ()):
        line = "; ".join(f"{edge['source']} {edge['predicate']} {edge['target']}" for edge in path)
        score = score_path([edge["predicate"] for edge in path])
        found.append(_candidate("gk", line, line, score, {}))
    return found


def _candidate(
    source: Source, id: str, text: str, score: float, metadata: Mapping[str, Any]
) -> ScoredCandidate:
    return ScoredCandidate(
        source=source, candidate_id=id, text=text, base_score=score, adjusted_score=score,
        metadata=dict(metadata),
    )  # fmt: skip


def score_path(
    predicates: Sequence[str],
    *,
    high_signal: frozenset[str] = HIGH_SIGNAL_PREDICATES,
) -> float:
    """The base score of a path, 0..1: more for each high-signal predicate, less if it is long or mostly without."""
    signals = sum(predicate in high_signal for predicate in predicates)
    is_noisy = 2 * signals < len(predicates) or len(predicates) > LONG_PATH
    return min(
        1.0, max(0.0, round(BASE_SCORE + SIGNAL_BONUS * signals - NOISE_PENALTY * is_noisy, 6))
    )


# -- overlap -------------------------------------------------------------------------------------

DUP_HAMMING = 3  # bits between the SimHashes of near-duplicates
NEAR_COPY = 0.90  # the least overlap of near-duplicates


def compute_overlaps(
    window: WindowFingerprint, texts: Sequence[str], *, hamming: int = DUP_HAMMING
) -> NDArray[np.float64]:
    """The overlap of each text with a window of which only the fingerprint is known, 0..1."""
    return np.array([ratio for _, _, ratio in _compare(window, texts, hamming)], dtype=float)


def _compare(
    window: WindowFingerprint, texts: Sequence[str], hamming: int
) -> list[tuple[bool, int, float]]:
    """For each text whether the window or a span equals it, the least SimHash distance, and the overlap."""
    known = [p for p in (window.whole, *window.spans) if p.token_count]
    mins = np.array([p.minhash128 for p in known], dtype=np.uint32)
    sims = np.array([p.simhash64 for p in known], dtype=np.uint64)
    digests = {p.sha256 for p in known}
    found = []
    for print_ in fingerprints(texts):
        if not print_.token_count or not known:
            found.append((False, 64, 0.0))
            continue
        ratio = float((mins == np.array(print_.minhash128, np.uint32)).mean(axis=1).max())
        apart = int(np.bitwise_count(sims ^ np.uint64(print_.simhash64)).min())
        is_equal = print_.sha256 in digests
        if apart <= hamming:
            ratio = max(ratio, NEAR_COPY)
        found.append((is_equal, apart, 1.0 if is_equal else ratio))
    return found


# -- the penalty ---------------------------------------------------------------------------------

WEIGHT = 0.90
GRAPH_WEIGHT = 0.60
EXPONENT = 1.35

NEAR_DUPLICATE = 0.85
SELF_REFERENTIAL = 0.60
NOVEL = 0.30

OverlapClass = Literal["near_duplicate", "self_referential", "partial", "novel"]


def compute_penalty(overlap: float, *, weight: float = WEIGHT, exponent: float = EXPONENT) -> float:
    """The share of its score that a candidate loses: weight × overlap^exponent."""
    return float(weight * overlap**exponent)


def adjust_score(
    score: float, overlap: float, *, weight: float = WEIGHT, exponent: float = EXPONENT
) -> float:
    """The score after the penalty; never above what it was, and 0 for an exact repeat."""
    if overlap <= 0:
        return score
    if overlap >= 1:
        return min(score, 0.0)
    penalty = compute_penalty(overlap, weight=weight, exponent=exponent)
    return min(score, max(0.0, score * (1 - penalty)))


def classify_overlap(
    overlap: float,
    *,
    near_duplicate: float = NEAR_DUPLICATE,
    self_referential: float = SELF_REFERENTIAL,
    novel: float = NOVEL,
) -> OverlapClass:
    """What a candidate with that overlap is to the window."""
    if overlap >= near_duplicate:
        return "near_duplicate"
    if overlap >= self_referential:
        return "self_referential"
    return "partial" if overlap >= novel else "novel"


def penalize_candidates(
    candidates: Sequence[ScoredCandidate], window_fp: WindowFingerprintPayload, source: Source
) -> list[ScoredCandidate]:
    """The candidates of a source with their overlap and what it leaves of their scores, in their order."""
    window = WindowFingerprint.from_json(window_fp.model_dump(exclude_none=True))
    weight = WEIGHT if source == "rag" else GRAPH_WEIGHT
    compared = _compare(window, [candidate.text for candidate in candidates], DUP_HAMMING)
    return [
        candidate.model_copy(update={
            "adjusted_score": adjust_score(candidate.base_score, ratio, weight=weight),
            "overlap": OverlapAssessment(
                exact_match=is_equal, simhash_distance=apart, overlap_ratio=ratio,
                penalty=compute_penalty(ratio, weight=weight),
                reason="exact_match" if is_equal else classify_overlap(ratio),
            ),
        })
        for candidate, (is_equal, apart, ratio) in zip(candidates, compared, strict=True)
    ]  # fmt: skip


# -- the second pass -----------------------------------------------------------------------------

MIN_NOVEL = 2
TRIGGER_OVERLAP = 0.60
MOST_QUERIES = 4
TIES = ("depends_on", "conflicts_with", "extends", "resolves")  # a need or a conflict
SIGNALS = (*TIES, "relates_to_project")  # predicates that lead to new knowledge first

Search = Callable[..., Awaitable[Sequence[Mapping[str, Any]]]]
"""`search(query, session_id=..., match_count=...)`: rows, as `build_rag_candidates` takes them."""


def should_expand(rag_candidates: Sequence[ScoredCandidate], k_rag: int) -> bool:
    """Whether to ask once more: too few candidates are novel, or the best k of the first ranking repeat the window."""
    ranked = sorted(rag_candidates, key=lambda c: -c.base_score)
    overlaps = [candidate.overlap.overlap_ratio for candidate in ranked]
    return is_mostly_known(sum(r < NOVEL for r in overlaps), overlaps[:k_rag], k_rag)


def is_mostly_known(
    novel_count: int,
    best_overlaps: Iterable[float],
    k: int,
    *,
    min_novel: int = MIN_NOVEL,
    trigger_overlap: float = TRIGGER_OVERLAP,
) -> bool:
    """Whether fewer than min(2, k) candidates are novel, or all of the best k repeat the window.

    `best_overlaps` are those of the k candidates with the highest scores before the penalty.
    """
    if novel_count < min(min_novel, k):
        return True
    return all(overlap >= trigger_overlap for overlap in best_overlaps)


def expansion_depth(k: int) -> int:
    """How many candidates the second pass fetches for each query."""
    return max(3 * k, 12)


def build_adjacent_queries(
    query: str, others: Sequence[str], ties: Sequence[str], most: int = MOST_QUERIES
) -> tuple[str, ...]:
    """Two to four queries, the question first: with what is adjacent, with a need or conflict, as bare keywords."""
    tied = [term for term in ties if term not in others[:1]]
    asked = [
        query,
        *(f"{query} {term}" for term in (others or ties)[:1]),
        *(f"{query} {term}" for term in tied[:1]),
        " ".join(word for word in tokens(query) if word not in ENGLISH),
        f"{query} {TIES[0].replace('_', ' ')} {TIES[1].replace('_', ' ')}",  # when nothing else is left
    ]
    unique = list(dict.fromkeys(text for text in asked if text))
    return tuple(unique[: min(most, max(2, len(unique) - 1))])


async def expand_adjacent_semantic_space(  # noqa: PLR0917  the published signature
    query: str,
    project: str | None,
    session_id: str,
    gk_result: Mapping[str, Any],
    window_fp: WindowFingerprintPayload,
    target_k: int,
    *,
    search: Search,
    window_text: str = "",
) -> list[Mapping[str, Any]]:
    """Rows that adjacent queries find, each once, without those that repeat the window.

    Terms come from the graph's paths, the most telling predicates first, and from the project. One of words that the
    query or the window has leads nowhere new; of a window that was sent as a fingerprint no word is known.
    """
    stale = {*tokens(query), *tokens(window_text)}
    edges = [edge for path in gk_result.get("paths", ()) for edge in path]
    edges.sort(key=lambda edge: edge["predicate"] not in SIGNALS)
    ends = [(edge["predicate"], edge[end]) for edge in edges for end in ("target", "source")]
    fresh = [(predicate, end) for predicate, end in ends if not stale.issuperset(tokens(end))]
    others = [end for predicate, end in fresh if predicate not in TIES]
    if project and not stale.issuperset(tokens(project)):
        others.append(project)
    ties = [end for predicate, end in fresh if predicate in TIES]
    rows: dict[str, Mapping[str, Any]] = {}
    for asked in build_adjacent_queries(query, others, ties):
        for row in await search(asked, session_id=session_id, match_count=expansion_depth(target_k)):  # fmt: skip
            rows.setdefault(str(row.get("id")), row)
    found = list(rows.values())
    judged = penalize_candidates(build_rag_candidates(found), window_fp, "rag")
    return [
        row
        for row, candidate in zip(found, judged, strict=True)
        if candidate.overlap.overlap_ratio < TRIGGER_OVERLAP
    ]


def fuse_candidate_pools(
    rag_candidates: Sequence[ScoredCandidate], expanded_candidates: Sequence[ScoredCandidate]
) -> list[ScoredCandidate]:
    """Both pools as one, best adjusted score first; of a candidate in both the one found first."""
    pool: dict[str, ScoredCandidate] = {}
    for candidate in (*rag_candidates, *expanded_candidates):
        pool.setdefault(candidate.candidate_id, candidate)
    return sorted(pool.values(), key=lambda c: -c.adjusted_score)


# -- the answer ----------------------------------------------------------------------------------

RAG_SHARE = 0.60
GRAPH_SHARE = 0.30  # the rest is in reserve
CHARS_PER_TOKEN = 4


class ContextGatewayResponse(BaseModel):
    """What goes to the model."""

    text: str = ""
    chunks: list[ScoredCandidate] = Field(default_factory=list)
    admissibility_token: str | None = None
    graph_context: str = ""
    token_estimate: int = 0
    sources: list[str] = Field(default_factory=list)
    latency_ms: float = 0.0


def pack_budgeted_response(
    rag_candidates: Sequence[ScoredCandidate],
    gk_candidates: Sequence[ScoredCandidate],
    admissibility_token: str | None,
    max_tokens: int,
    include_graph: bool,  # noqa: FBT001  the published signature
    *,
    best_effort: bool = False,
) -> ContextGatewayResponse:
    """Fill 60 % of the budget with rows and 30 % with paths, in their order; the last of each is cut to fit.

    A candidate without a score stays out, unless there is nothing else and the caller wants best effort.
    """
    nothing_else = best_effort and not any(c.adjusted_score > 0 for c in rag_candidates)
    parts, chunks, room = [], [], int(max_tokens * RAG_SHARE) * CHARS_PER_TOKEN
    for candidate in rag_candidates:
        if room > 0 and (candidate.adjusted_score > 0 or nothing_else):
            chunks.append(candidate)
            parts.append(candidate.text[:room])
            room -= len(candidate.text)
    paths = [c.text for c in gk_candidates if c.adjusted_score > 0] if include_graph else []
    graph = "\n".join(paths)[: int(max_tokens * GRAPH_SHARE) * CHARS_PER_TOKEN]
    text = "\n\n".join([*parts, *([graph] if graph else [])])
    return ContextGatewayResponse(
        text=text, chunks=chunks, admissibility_token=admissibility_token, graph_context=graph,
        token_estimate=len(text) // CHARS_PER_TOKEN, sources=[c.candidate_id for c in chunks],
    )  # fmt: skip


async def compose_response(
    request: ContextGatewayRequest,
    project: str | None,
    gk_result: Mapping[str, Any],
    rag_results: Sequence[Mapping[str, Any]],
    *,
    search: Search | None = None,
    best_effort: bool = False,
) -> ContextGatewayResponse:
    """From what was found to what is sent: penalize, expand once if too little is new, order, pack.

    Without `search` there is no second pass. One that fails leaves the first as it is.
    """
    began = perf_counter()
    window_fp = build_window_fingerprint(request) if request.enable_self_ref_penalty else None
    rag, gk = build_rag_candidates(rag_results), build_gk_candidates(gk_result)
    if window_fp:
        rag = penalize_candidates(rag, window_fp, "rag")
        gk = penalize_candidates(gk, window_fp, "gk")
        if search is not None and should_expand(rag, request.k_rag):
            seen = "\n".join([request.current_window_text, *request.current_window_blocks])
            try:
                rows = await expand_adjacent_semantic_space(
                    request.query, project, request.session_id, gk_result, window_fp, request.k_rag,
                    search=search, window_text=seen,
                )  # fmt: skip
            except Exception as error:  # noqa: BLE001  # a search of the caller's own may raise anything
                logging.getLogger(__name__).warning("the second pass failed: %s", error)
                rows = []
            more = penalize_candidates(build_rag_candidates(rows), window_fp, "rag")
            rag = fuse_candidate_pools(rag, more)
    rag.sort(key=lambda c: -c.adjusted_score)
    gk.sort(key=lambda c: -c.adjusted_score)
    answer = pack_budgeted_response(
        rag, gk, gk_result.get("admissibility_token"), request.max_tokens, request.include_graph,
        best_effort=best_effort,
    )  # fmt: skip
    answer.latency_ms = 1000 * (perf_counter() - began)
    return answer


# -- names that callers already use --------------------------------------------------------------

ENVIRONMENT_PREFIX = "CONTEXT_GATEWAY_SELFREF_"
ENVIRONMENT: Mapping[str, str] = {
    "ENABLED": "penalize.enabled",
    "SHINGLE_SIZE": "penalize.shingle_size",
    "MINHASH_PERM": "penalize.minhash_perm",
    "DUP_HAMMING": "penalize.dup_hamming",
    "TRIGGER_OVERLAP": "expand.trigger_overlap",
    "MIN_NOVEL": "expand.min_novel",
}
"""Environment variables, after their prefix, and the settings that they set."""

REQUEST_FIELDS: Mapping[str, str] = {
    "budget": "max_tokens",
    "k": "k_rag",
    "session": "session_id",
    "penalize": "enable_self_ref_penalty",
    "graph": "include_graph",
}
"""Fields of a request by their name in the library, and the name that HTTP clients may send instead."""
