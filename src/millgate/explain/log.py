"""The performance log: one JSON line for each request, rotated by size; and the figures that other logs have too.

A line holds the eviction report (counts, average entropies, evicted ids and the reason for each), how the candidates
relate to the window, tokens, the time of every stage and what was degraded. The query's text is left out unless the
policy allows it. The request log and the metrics share the figures. `log_keys` has them under the names that
published/self_reference.py's design gives to the keys of its log line, and under no other.
Several processes may write to one file: a lock beside it lets one at a time rotate and write, and none keeps the file
open between two lines. Windows has no such lock: there, one process a file.
"""

import io
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from millgate.text.redact import redact
from millgate.text.tokens import estimate_tokens
from millgate.types import SAVED_TOKENS, SIDE_SOURCES, Context, Trace
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import LogPolicy


class WindowFigures(NamedTuple):
    """How the candidates of a request relate to the window: each one's overlap, and what came of it."""

    overlaps: tuple[float, ...]
    candidate_count: int
    penalized_count: int
    exact_duplicate_count: int
    expansion_triggered: bool
    novel_result_count: int
    expanded_count: int
    """Candidates of the second pass that stayed."""


def window_figures(trace: Trace) -> WindowFigures:
    """The figures of a trace."""
    known = (c.number(Stage.PENALIZE, "overlap") for c in trace.candidates)
    overlaps = tuple(overlap for overlap in known if overlap is not None)
    notes = [note for c in trace.candidates for note in c.notes]
    return WindowFigures(
        overlaps=overlaps,
        candidate_count=len(trace.candidates),
        penalized_count=sum(overlap > 0 for overlap in overlaps),
        exact_duplicate_count=sum(note.code is NoteCode.IN_WINDOW for note in notes),
        expansion_triggered=any(step.stage is Stage.EXPAND for step in trace.steps),
        novel_result_count=sum(note.code is NoteCode.NEW for note in notes),
        expanded_count=sum(
            any(n.stage is Stage.EXPAND and n.fate is not Fate.DROP for n in c.notes)
            and not c.dropped
            for c in trace.candidates
        ),
    )


def log_keys(trace: Trace) -> dict[str, Any]:
    """What a log line says of a request's session and window."""
    figures = window_figures(trace)
    return {
        "session_id": redact(trace.request.session),
        "candidate_count": figures.candidate_count,
        "penalized_count": figures.penalized_count,
        "exact_duplicate_count": figures.exact_duplicate_count,
        "expansion_triggered": figures.expansion_triggered,
        "novel_result_count": figures.novel_result_count,
    }


def with_savings(trace: Trace) -> Trace:
    """The trace with what it saved among the facts of its last stage, so that lists need not weigh its candidates
    again.
    """
    steps = tuple(
        replace(step, facts={**step.facts, SAVED_TOKENS: tokens_saved(trace)})
        if step.stage is Stage.COMPOSE
        else step
        for step in trace.steps
    )
    return replace(trace, steps=steps)


def tokens_saved(trace: Trace) -> int:
    """The tokens of passages that were left out because the window shows them, as far as there was room for them.

    What would not have been sent anyway, beyond the budget or `k`, saves nothing by being left out.
    """
    shown = [c for c in trace.candidates if not c.dropped]
    held = [c for c in trace.candidates if c.dropped and c.notes[-1].code is NoteCode.IN_WINDOW]
    if (k := trace.request.k) is not None:
        held = held[: max(0, k - sum(c.chunk.source not in SIDE_SOURCES for c in shown))]
    room = trace.budget - sum(c.number(Stage.COMPOSE, "tokens") or 0 for c in shown)
    return int(min(max(0, room), sum(estimate_tokens(c.chunk.text) for c in held)))


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
