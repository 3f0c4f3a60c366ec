"""The performance log: one JSON line per request, rotated by size.

A line holds the eviction report (counts, average entropies, evicted ids and the reason for each), tokens, the time
of every stage and what was degraded. The query's text is left out unless it is allowed.
"""

import threading
from pathlib import Path
from typing import Any

import orjson

from headgate.policy import LogPolicy
from headgate.types import Context

NAME = "retrieval-performance.log"


class PerformanceLog:
    """Appends to one file; at its size limit the file becomes `.1`, the former `.1` becomes `.2`, and so on."""

    def __init__(self, path: Path, policy: LogPolicy) -> None:
        self._path = path
        self._policy = policy
        self._lock = threading.Lock()

    def write(self, context: Context) -> None:
        """Append the line of one request. Raises OSError when the file cannot be written."""
        line = orjson.dumps(entry(context, text=self._policy.text)) + b"\n"
        with self._lock:
            self._rotate(len(line))
            with self._path.open("ab") as file:
                file.write(line)

    def _rotate(self, coming: int) -> None:
        """Put the file aside when the line would make it too long."""
        if not self._path.exists() or self._path.stat().st_size + coming <= self._policy.max_bytes:
            return
        names = [self._path, *(self._aside(n) for n in range(1, self._policy.backups + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)
        self._path.unlink(missing_ok=True)

    def _aside(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def entry(context: Context, *, text: bool = False) -> dict[str, Any]:
    """The line as data."""
    trace, report = context.trace, context.report
    return {
        "time": trace.created,
        "trace": trace.id,
        "tenant": trace.request.tenant,
        "collection": ", ".join(trace.request.collections),
        "session": trace.request.session,
        **({"query": trace.request.query} if text else {}),
        "strategy": context.strategy.value,
        "budget": trace.plan.budget,
        "tokens": context.token_estimate,
        "latency_ms": round(context.latency_ms, 3),
        "total_candidates": report.total_candidates,
        "kept": report.kept,
        "evicted": report.evicted,
        "avg_entropy_kept": round(report.avg_entropy_kept, 4),
        "avg_entropy_evicted": round(report.avg_entropy_evicted, 4),
        "evicted_ids": list(report.evicted_ids),
        "reasons": dict(report.reasons),
        "stages": [{"stage": s.stage, "ms": round(1000 * s.seconds, 3)} for s in trace.steps],
        "fallback": context.fallback,
        "review": context.review,
        "degraded": list(context.degraded),
    }
