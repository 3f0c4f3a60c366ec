"""Answer: a context as plain data, the same on every surface.

What is always in it is the answer itself; the numbers behind each chunk come only when they are asked for.
"""

from collections.abc import Mapping
from typing import Any

from headgate.types import Candidate, Context


def answer(context: Context, *, debug: bool = False) -> dict[str, Any]:
    """The context as JSON-ready data; with `debug` also what penalizing and expanding did."""
    scores = {c.chunk.id: c for c in context.trace.candidates}
    return {
        "text": context.text,
        "chunks": [_chunk(scores[chunk.id], debug=debug) for chunk in context.chunks],
        "token_estimate": context.token_estimate,
        "sources": list(context.sources),
        "graph_context": list(context.graph_context),
        "admissibility_token": context.admissibility_token,
        "strategy": context.strategy.value,
        "degraded": list(context.degraded),
        "fallback": context.fallback,
        "fallback_reason": context.fallback_reason,
        "review": context.review,
        "latency_ms": round(context.latency_ms, 3),
        "trace": context.trace.id,
        "report": {
            "total_candidates": context.report.total_candidates,
            "kept": context.report.kept,
            "evicted": context.report.evicted,
            "avg_entropy_kept": context.report.avg_entropy_kept,
            "avg_entropy_evicted": context.report.avg_entropy_evicted,
            "evicted_ids": list(context.report.evicted_ids),
            "reasons": dict(context.report.reasons),
        },
        **(_expansion(context) if debug else {}),
    }


def _chunk(candidate: Candidate, *, debug: bool) -> dict[str, Any]:
    chunk = candidate.chunk
    return {
        "id": chunk.id,
        "text": chunk.text,
        "title": chunk.title,
        "document": chunk.document,
        "collection": chunk.collection,
        "source": chunk.source,
        "score": candidate.score,
        "metadata": dict(chunk.metadata),
        "admission": chunk.admission,
        **(_penalty(candidate) if debug else {}),
    }


def _penalty(candidate: Candidate) -> Mapping[str, Any]:
    """What the window's overlap did to the score."""
    notes = candidate.notes
    at = next((n for n, note in enumerate(notes) if note.stage == "penalize"), None)
    if at is None:
        return {
            "self_ref_penalty_applied": False,
            "overlap_ratio": 0.0,
            "original_score": candidate.score,
            "adjusted_score": candidate.score,
        }
    before = notes[at - 1].score if at else candidate.score
    after = notes[at].score
    return {
        "self_ref_penalty_applied": after < before,
        "overlap_ratio": notes[at].value or 0.0,
        "original_score": before,
        "adjusted_score": after,
    }


def _expansion(context: Context) -> Mapping[str, Any]:
    return {"expansion_triggered": any(step.stage == "expand" for step in context.trace.steps)}
