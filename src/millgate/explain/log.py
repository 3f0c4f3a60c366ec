"""The performance log: one JSON line for each request, rotated by size.

A line holds the eviction report (counts, average entropies, evicted ids and the reason for each), how the candidates
relate to the window (figures.py), tokens, the time of every stage and what was degraded. The query's text is
left out unless the policy allows it.
Several processes may write to one file: a lock beside it lets one at a time rotate and write, and none keeps the file
open between two lines. Windows has no such lock: there, one process a file.
"""

import io
import os
import sys
from pathlib import Path
from typing import Any

import orjson

from millgate.explain.figures import log_keys
from millgate.text.redact import redact
from millgate.types import Context
from millgate.types.policy import LogPolicy

if sys.platform != "win32":
    import fcntl

NAME = "retrieval-performance.log"


class PerformanceLog:
    """Appends to one file. At its size limit the file becomes `.1`, the former `.1` becomes `.2`, and so on."""

    def __init__(self, path: Path, policy: LogPolicy, *, redacts: bool = True) -> None:
        self._path, self._policy, self._redacts = path, policy, redacts

    def write(self, context: Context) -> None:
        """Append the line of one request. Raises OSError when the file cannot be written."""
        said = orjson.dumps(entry(context, text=self._policy.text)).decode()
        line = ((redact(said) if self._redacts else said) + "\n").encode()
        path = self._path
        with _open(path.with_name(f"{path.name}.lock")) as lock:
            if sys.platform != "win32":
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                if path.is_file() and path.stat().st_size + len(line) > self._policy.max_bytes:
                    for number in range(self._policy.backups, 0, -1):
                        older = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
                        if older.exists():
                            older.replace(path.with_name(f"{path.name}.{number}"))
                with _open(path) as file:
                    file.write(line)
            finally:
                if sys.platform != "win32":
                    # closing is not enough: a child forked just now may hold the file open too
                    fcntl.flock(lock, fcntl.LOCK_UN)


def _open(path: Path) -> io.FileIO:
    """Open a file to append to, made for its owner alone: ids and, if allowed, queries stand in it."""
    return io.FileIO(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "ab")


def entry(context: Context, *, text: bool = False) -> dict[str, Any]:
    """The line as data."""
    trace, report = context.trace, context.report
    return {
        "time": trace.created,
        "trace": trace.id,
        "tenant": trace.request.tenant,
        "collection": ", ".join(trace.request.collections),
        **log_keys(trace),
        **({"query": trace.request.query} if text else {}),
        "strategy": context.strategy.value,
        "budget": trace.budget,
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
