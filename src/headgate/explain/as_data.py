"""As data: contexts and traces as plain values, the same on every surface.

What is always in a context's data is the answer itself; the numbers behind each chunk come only when they are asked for.
A trace comes in one row or in full, and tells of the window only its size.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headgate.notes import Note, Stage
from headgate.types import Candidate, Context, Trace, TraceSummary


def context_data(context: Context, *, debug: bool = False) -> dict[str, Any]:
    """The context as JSON-ready data; with `debug` also what penalizing and expanding did."""
    candidates = {c.chunk.id: c for c in context.trace.candidates}
    report = asdict(context.report)
    return {
        "text": context.text,
        "chunks": [_chunk_data(candidates[chunk.id], debug=debug) for chunk in context.chunks],
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
        "report": report | {"evicted_ids": list(context.report.evicted_ids)},
        **(_expansion_data(context) if debug else {}),
    }


def summary_data(summary: TraceSummary) -> dict[str, Any]:
    """A request in one row."""
    return asdict(summary) | {"degraded": list(summary.degraded)}


def trace_data(trace: Trace) -> dict[str, Any]:
    """The whole trace: plan, request, steps, and every candidate with its notes."""
    request = asdict(trace.request)
    request["window"] = {
        "blocks": len(trace.request.window.texts),
        "chars": sum(map(len, trace.request.window.texts)),
        "fingerprint": trace.request.window.fingerprint is not None,
    }
    del request["tenant"]
    return {
        **summary_data(TraceSummary.of(trace)),
        "plan": asdict(trace.plan),
        "request": request,
        "steps": [asdict(step) for step in trace.steps],
        "fates": [_candidate_data(candidate) for candidate in trace.candidates],
    }


def note_data(note: Note) -> dict[str, Any]:
    """A note with its sentence."""
    return {
        "stage": note.stage.value,
        "fate": note.fate.value,
        "code": note.code.value,
        "reason": note.reason,
        "score": note.score,
        "numbers": dict(note.numbers),
        "subject": note.subject,
    }


def _candidate_data(candidate: Candidate) -> dict[str, Any]:
    chunk = candidate.chunk
    return {
        "id": chunk.id,
        "document": chunk.document,
        "source": chunk.source,
        "title": chunk.title,
        "text": chunk.text,
        "score": candidate.score,
        "kept": not candidate.dropped,
        "notes": [note_data(note) for note in candidate.notes],
    }


def _chunk_data(candidate: Candidate, *, debug: bool) -> dict[str, Any]:
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
        **(_penalty_data(candidate) if debug else {}),
    }


def _penalty_data(candidate: Candidate) -> Mapping[str, Any]:
    """What the overlap with the window did to the score."""
    before = after = candidate.score
    for earlier, note in zip((None, *candidate.notes), candidate.notes, strict=False):
        if note.stage is Stage.PENALIZE:
            before, after = earlier.score if earlier else candidate.score, note.score
            break
    return {
        "self_ref_penalty_applied": after < before,
        "overlap_ratio": candidate.number(Stage.PENALIZE, "overlap") or 0.0,
        "original_score": before,
        "adjusted_score": after,
    }


def _expansion_data(context: Context) -> Mapping[str, Any]:
    expanded = any(step.stage is Stage.EXPAND for step in context.trace.steps)
    return {"expansion_triggered": expanded}
