"""As data: contexts and traces as plain values, the same on every surface.

A context's data always has the answer itself; it has the numbers behind each chunk only if the caller asks for them.
A trace comes in one row or in full, and tells of the window only its size.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from operator import is_
from typing import Any

from millgate.text.redact import redact
from millgate.types import Candidate, Context, Plan, Request, Trace, TraceSummary
from millgate.types.notes import Note, Stage


def context_data(context: Context, *, debug: bool = False, report: bool = True) -> dict[str, Any]:
    """The context as JSON-ready data; `report` adds what was evicted, `debug` what penalizing and expanding did."""
    candidates = {c.chunk.id: c for c in context.trace.candidates}
    return {
        "text": context.text,
        "chunks": [_chunk_data(candidates[chunk.id], debug=debug) for chunk in context.chunks],
        "token_estimate": context.token_estimate,
        "sources": list(context.sources),
        "graph_context": list(context.graph_context),
        "admissibility_token": context.admissibility_token,
        "strategy": context.strategy.value,
        "plan": plan_data(context.plan),
        "degraded": list(context.degraded),
        "verdict": context.verdict,
        "confidences": {id: round(mark, 4) for id, mark in context.confidences.items()},
        "fallback": context.fallback,
        "fallback_reason": context.fallback_reason,
        "review": context.review,
        "latency_ms": round(context.latency_ms, 3),
        "trace": context.trace.id,
        **({"report": _report_data(context)} if report else {}),
        **({"expansion_triggered": context.trace.step(Stage.EXPAND) is not None} if debug else {}),
    }


def plan_data(plan: Plan) -> dict[str, Any]:
    """What was decided before anything was looked up: whether to skip, how much to give, and why."""
    return {
        "skip": plan.skip,
        "tier": plan.tier.value,
        "pressure": round(plan.pressure, 4),
        "budget": plan.budget,
        "limit": plan.limit,
        "min_trust": plan.min_trust,
        "task": plan.task,
        "group": plan.group,
        "in_danger": plan.in_danger,
        "reasoning": plan.reasoning,
    }


def _report_data(context: Context) -> dict[str, Any]:
    """The eviction report: ids by stage and code, and a sentence for each."""
    report, evicted = context.report, dict[str, list[str]]()
    for candidate in context.trace.candidates:
        if candidate.dropped:
            last = candidate.notes[-1]
            evicted.setdefault(f"{last.stage}: {last.code}", []).append(candidate.chunk.id)
    return {
        **asdict(report),
        "avg_entropy_kept": round(report.avg_entropy_kept, 4),
        "avg_entropy_evicted": round(report.avg_entropy_evicted, 4),
        "evicted_by": evicted,
        "evicted_ids": list(report.evicted_ids),
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
        "plan": asdict(trace.plan) if trace.plan else None,
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
    """How the overlap with the window changed a candidate's score."""
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


def redact_trace(trace: Trace) -> Trace:
    """The trace with a placeholder for every secret in its session, query, window, candidates and steps."""
    request = redact_session(trace.request)
    query = redact(request.query)
    texts = tuple(map(redact, request.window.texts))
    if query != request.query or texts != request.window.texts:
        request = replace(request, query=query, window=replace(request.window, texts=texts))
    candidates = tuple(map(_redact_candidate, trace.candidates))
    steps = tuple(replace(s, text=redact(s.text)) if s.text else s for s in trace.steps)
    if request is trace.request and all(map(is_, candidates, trace.candidates)):
        return trace if steps == trace.steps else replace(trace, steps=steps)
    return replace(trace, request=request, candidates=candidates, steps=steps)


def redact_session(request: Request) -> Request:
    """The request with a placeholder for a secret in the name of its session."""
    session = redact(request.session)
    return request if session == request.session else replace(request, session=session)


def _redact_candidate(candidate: Candidate) -> Candidate:
    text = redact(candidate.chunk.text)
    if text == candidate.chunk.text:
        return candidate
    return replace(candidate, chunk=replace(candidate.chunk, text=text))
