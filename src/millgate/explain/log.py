"""The performance log: one JSON line for each request, rotated by size.

A line holds the eviction report (counts, average entropies, evicted ids and the reason for each), how the candidates
relate to the window (figures.py), tokens, the time of every stage and what was degraded. The query's text is
left out unless the policy allows it.
The standard library rotates the files. Several processes may write to one file: a lock beside it lets one at a time
rotate and write, and none keeps the file open between two lines.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
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
        self._handler = _SharedFileHandler(path, policy.max_bytes, policy.backups)
        self._with_text = policy.text
        self._redacts = redacts

    def write(self, context: Context) -> None:
        """Append the line of one request. Raises OSError when the file cannot be written."""
        line = orjson.dumps(entry(context, text=self._with_text)).decode()
        if self._redacts:
            line = redact(line)
        self._handler.handle(logging.makeLogRecord({"msg": line}))


class _SharedFileHandler(RotatingFileHandler):
    """A rotating file that several threads and processes write to. Errors are raised, not printed."""

    def __init__(self, path: Path, max_bytes: int, backups: int) -> None:
        super().__init__(
            path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8", delay=True
        )
        self._lock_file = path.with_name(f"{path.name}.lock")

    def _open(self) -> TextIOWrapper:
        """Make the file for its owner alone: ids and, if allowed, queries stand in it."""
        descriptor = os.open(self.baseFilename, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), encoding=self.encoding)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line to the file that has the name now: another process may have rotated it."""
        with self._hold_lock():
            try:
                super().emit(record)
            finally:
                stream, self.stream = self.stream, None
                if stream:
                    # on a full disk closing writes once more, and fails once more
                    with suppress(OSError):
                        stream.close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the library's name)
        """Raise what emit caught."""
        raise  # noqa: PLE0704  (called while the error is handled)

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Keep other processes from writing and rotating. Windows has no such lock: there, one process a file."""
        if sys.platform == "win32":
            yield
        else:
            descriptor = os.open(self._lock_file, os.O_CREAT | os.O_RDWR, 0o600)
            with os.fdopen(descriptor, "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    yield
                finally:
                    # closing is not enough: a child forked just now may hold the file open too
                    fcntl.flock(lock, fcntl.LOCK_UN)


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
