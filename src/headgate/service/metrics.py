"""Metrics: what the service did, counted from traces and visits after the answer is on its way.

Labels are routes, methods, statuses, stages and verdicts: a few dozen series, and never a tenant, key, session or id.
"""

import asyncio
import time
from pathlib import Path

from starlette.types import Scope

from headgate.guard.report import GuardReport, State
from headgate.service.log import Figures, figures
from headgate.service.meters import Meter, Meters, Shared
from headgate.service.request_state import Visit, route_of
from headgate.types import Trace

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = frozenset(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
GRADES = frozenset({"correct", "ambiguous", "incorrect"})
WRITE_EVERY_S = 0.5  # how old the numbers of another process may be

METERS = (
    Meter("headgate_requests_total", "counter", "HTTP requests answered.", ("route", "method", "status")),
    Meter("headgate_request_seconds", "histogram", "Time to the end of the answer.", ("route",), SECONDS),
    Meter("headgate_contexts_total", "counter", "Contexts composed."),
    Meter("headgate_contexts_empty_total", "counter", "Contexts in which nothing was worth its place."),
    Meter("headgate_contexts_degraded_total", "counter", "Contexts of which a step was degraded."),
    Meter("headgate_skipped_total", "counter", "Contexts skipped, since the window was full."),
    Meter("headgate_stage_seconds", "histogram", "Time in each stage.", ("stage",), SECONDS),
    Meter("headgate_stage_degraded_total", "counter", "Steps that were degraded.", ("stage",)),
    Meter("headgate_bugs_total", "counter", "Stages that failed for a bug, not for what the outside did.", ("stage",)),
    Meter("headgate_tokens_injected_total", "counter", "Tokens of the contexts given."),
    Meter("headgate_tokens_saved_total", "counter", "Tokens of candidates left out, by the estimate of characters over four."),
    Meter("headgate_selfref_candidates_total", "counter", "Candidates compared with a window."),
    Meter("headgate_selfref_penalized_total", "counter", "Candidates whose score fell for repeating the window."),
    Meter("headgate_selfref_exact_duplicates_total", "counter", "Candidates left out since the window holds them whole."),
    Meter("headgate_selfref_expansion_total", "counter", "Requests whose query was expanded."),
    Meter("headgate_selfref_expansion_success_total", "counter", "Expansions that added a chunk."),
    Meter("headgate_selfref_overlap_ratio", "histogram", "Overlap of candidates with the window.", (),
          (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 0.95, 1.0)),
    Meter("headgate_selfref_novel_results", "histogram", "Candidates of a request that the window does not hold.", (),
          (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0, 100.0)),
    Meter("headgate_grades_total", "counter", "Requests by what grading made of them.", ("action",)),
    Meter("headgate_reviews_total", "counter", "Reviews asked for and decided.", ("status",)),
    Meter("headgate_guard_streams_total", "counter", "Streams that ended under the guard.", ("state",)),
    Meter("headgate_guard_stalls_total", "counter", "Loops found in streams."),
    Meter("headgate_guard_rollbacks_total", "counter", "Rollbacks of streams."),
    Meter("headgate_guard_recovered_total", "counter", "Streams that looped and came to a good end."),
    Meter("headgate_guard_failed_total", "counter", "Streams given up for looping."),
    Meter("headgate_guard_tokens_saved_total", "counter", "Tokens not generated, since a loop was cut."),
)  # fmt: skip


class Metrics:
    """Counts what went by; in a folder, together with the other processes of the service."""

    def __init__(self, folder: str | None = None) -> None:
        self._meters = Meters(METERS)
        self._shared = Shared(Path(folder)) if folder else None
        self._due = False

    def watch(self, visit: Visit, scope: Scope) -> None:
        """Count a request that was answered."""
        route = route_of(scope)
        method = visit.method if visit.method in METHODS else "OTHER"
        self._meters.add("headgate_requests_total", 1, route, method, str(visit.status))
        taken = time.perf_counter() - visit.began
        self._meters.observe("headgate_request_seconds", [taken], route)
        if visit.trace:
            self.context(visit.trace, visit.tokens)
        if self._shared and not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(WRITE_EVERY_S, self._write)

    def context(self, trace: Trace, tokens: int) -> None:
        """Count what a trace tells."""
        add, told = self._meters.add, figures(trace)
        add("headgate_contexts_total")
        add("headgate_contexts_empty_total", not tokens)
        add("headgate_contexts_degraded_total", bool(trace.degraded))
        add("headgate_skipped_total", trace.plan.skip)
        add("headgate_tokens_injected_total", tokens)
        left_out = sum(len(c.chunk.text) for c in trace.candidates if c.dropped)
        add("headgate_tokens_saved_total", left_out // 4)
        for step in trace.steps:
            stage = step.stage.value
            self._meters.observe("headgate_stage_seconds", [step.seconds], stage)
            if step.degraded:
                add("headgate_stage_degraded_total", 1, stage)
            if step.bug:
                add("headgate_bugs_total", 1, stage)
            action = step.facts.get("action")
            if action in GRADES:
                add("headgate_grades_total", 1, str(action))
            if step.facts.get("review"):
                self.review("pending")
        self._window(told)

    def review(self, status: str) -> None:
        """Count a review that was asked for or decided."""
        self._meters.add("headgate_reviews_total", 1, status)

    def guarded(self, report: GuardReport) -> None:
        """Count a stream that ended under the guard."""
        add, failed = self._meters.add, report.state is State.FAILED
        add("headgate_guard_streams_total", 1, report.state.value)
        add("headgate_guard_stalls_total", len(report.cuts))
        add("headgate_guard_rollbacks_total", report.rollbacks)
        add("headgate_guard_recovered_total", bool(report.rollbacks) and report.state is State.DONE)
        add("headgate_guard_failed_total", failed)
        add("headgate_guard_tokens_saved_total", report.saved_tokens)

    def text(self) -> str:
        """All numbers in the Prometheus text format."""
        mine = self._meters.snapshot()
        return self._meters.render([mine, *(self._shared.others() if self._shared else ())])

    def close(self) -> None:
        """Leave the last numbers to the other processes."""
        self._write()

    def _window(self, told: Figures) -> None:
        add = self._meters.add
        add("headgate_selfref_candidates_total", len(told.overlaps))
        add("headgate_selfref_penalized_total", told.penalized)
        add("headgate_selfref_exact_duplicates_total", told.exact_duplicates)
        add("headgate_selfref_expansion_total", told.expansion)
        add("headgate_selfref_expansion_success_total", told.expanded > 0)
        self._meters.observe("headgate_selfref_overlap_ratio", told.overlaps)
        if told.overlaps:
            self._meters.observe("headgate_selfref_novel_results", [told.novel])

    def _write(self) -> None:
        self._due = False
        if self._shared:
            self._shared.write(self._meters.snapshot())
