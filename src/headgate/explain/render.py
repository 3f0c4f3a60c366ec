"""Render: a trace as plain data for other programs, in one row and in full."""

from dataclasses import asdict
from typing import Any

from headgate.types import Candidate, Trace


def summary(trace: Trace) -> dict[str, Any]:
    """A request in one row."""
    plan = trace.plan
    return {
        "id": trace.id,
        "created": trace.created,
        "query": trace.request.query,
        "session": trace.request.session,
        "collection": ", ".join(trace.request.collections),
        "strategy": plan.strategy.value,
        "tier": plan.tier.value,
        "pressure": plan.pressure,
        "skip": plan.skip,
        "budget": plan.budget,
        "candidates": len(trace.candidates),
        "kept": sum(not candidate.dropped for candidate in trace.candidates),
        "seconds": sum(step.seconds for step in trace.steps),
        "degraded": list(trace.degraded),
    }


def plain(trace: Trace) -> dict[str, Any]:
    """The whole story; what the window held is told by its size alone."""
    request = asdict(trace.request)
    request["window"] = {
        "blocks": len(trace.request.window.texts),
        "chars": sum(map(len, trace.request.window.texts)),
        "fingerprint": trace.request.window.fingerprint is not None,
    }
    del request["tenant"]
    return {
        **summary(trace),
        "plan": asdict(trace.plan),
        "request": request,
        "steps": [asdict(step) for step in trace.steps],
        "fates": [_fate(candidate) for candidate in trace.candidates],
    }


def _fate(candidate: Candidate) -> dict[str, Any]:
    chunk = candidate.chunk
    return {
        "id": chunk.id,
        "document": chunk.document,
        "source": chunk.source,
        "title": chunk.title,
        "text": chunk.text,
        "score": candidate.score,
        "kept": not candidate.dropped,
        "notes": [asdict(note) for note in candidate.notes],
    }
