"""Metrics: what the service did, counted from traces and requests after the response is sent.

Labels are routes, methods, statuses, stages, verdicts, upstreams and models: few values, never a tenant, key, session
or id. Each service has a registry of its own. The workers of one service count in files of a shared folder (the
multi-process mode of prometheus_client), and whichever is asked adds them up. There are no gauges, so a worker that
ended needs no cleaning up: its counts stay in the sum.
"""

import re
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

from millgate.explain.log import tokens_saved, window_figures
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import RequestState, route_of
from millgate.types import SpendScope, Trace
from millgate.types.notes import Stage
from millgate.types.trace import ENDED

PREFIX = "millgate"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
MAX_MODELS = 200
CALL = "route upstream model"  # labels of a call
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 0.95, 1.0)
COUNTS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0, 100.0)
METHODS = frozenset(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
GRADES = frozenset({"correct", "ambiguous", "incorrect"})


COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "requests": ("HTTP requests answered.", "route method status"),
    "reviews": ("Reviews asked for and decided.", "status"),
    "writes_lost": ("Traces and reviews that could not be written behind an answer.", ""),
    "contexts": ("Contexts composed.", ""),
    "contexts_empty": ("Contexts without a chunk.", ""),
    "contexts_degraded": ("Contexts with a degraded step.", ""),
    "contexts_skipped": ("Contexts skipped because the window was full.", ""),
    "stage_degraded": ("Degraded steps.", "stage"),
    "bugs": ("Steps that ended in an unexpected exception.", "stage"),
    "tokens_injected": ("Tokens of the contexts given.", ""),
    "tokens_saved": ("Tokens of passages left out of contexts because the window shows them.", ""),
    "grades": ("Requests by the verdict of grading.", "action"),
    "selfref_candidates": ("Candidates compared with a window.", ""),
    "selfref_penalized": ("Candidates that share text with the window.", ""),
    "selfref_exact_duplicates": ("Candidates dropped because the window holds them whole.", ""),
    "selfref_expansion": ("Requests whose query was expanded.", ""),
    "selfref_expansion_success": ("Expansions that added a chunk.", ""),
    "guard_streams": ("Streams that ended under the guard.", "state"),
    "guard_stalls": ("Loops found in streams.", ""),
    "guard_rollbacks": ("Rollbacks of streams.", ""),
    "guard_recovered": ("Streams that looped and still ended well.", ""),
    "guard_failed": ("Streams given up because they kept looping.", ""),
    "guard_tokens_wasted": ("Tokens that were generated and cut.", ""),
    "model_calls": ("Calls of models through the proxy, by what the guard made of them.", f"{CALL} guard status"),
    "model_tokens": ("Tokens of these calls.", f"{CALL} direction"),
    "cache_read_tokens": ("Input tokens that providers read from their prompt cache.", CALL),
    "cache_written_tokens": ("Input tokens that providers wrote to their prompt cache.", CALL),
    "cache_lost_tokens": ("Input tokens paid in full again because a prompt cache broke, by whose doing.", f"{CALL} blame"),
    "model_cost": ("What these calls cost, in the currency of the prices.", CALL),
    "traces_lost": ("Traces of model calls that could not be stored.", ""),
    "circles": ("Rungs reached by agents that repeat their tool calls.", "rung"),
    "fold_tokens": ("Tokens that folding took out of requests, or would have, each counted once, by group of sessions.", "group"),
    "unknown_parts": ("Parts of messages in a shape that Millgate does not know; they are passed on as they came.", ""),
    "compactions": ("Compactions of agents' windows that were noticed, by their way.", "way"),
    "put_back_blocks": ("Blocks put back of what compactions lost.", ""),
    "put_back_tokens": ("Tokens of these blocks.", ""),
    "fuse_calls": ("Calls by how their spender stood to its cap.", "scope state"),
    "fuse_unpriced": ("Calls under a cap in money whose model has no price, by what each counts as.", "model priced_as"),
    "fuse_uncounted": ("Calls under a cap that could not be counted.", ""),
}  # fmt: skip
"""What is counted: what it means, and its labels."""
HISTOGRAMS: Final[Mapping[str, tuple[str, str, tuple[float, ...]]]] = {
    "request_seconds": ("Time to the end of the response.", "route", SECONDS),
    "stage_seconds": ("Time in each stage.", "stage", SECONDS),
    "selfref_overlap_ratio": ("Overlap of candidates with the window.", "", RATIOS),
    "selfref_novel_results": ("Candidates of a request that are new to the window.", "", COUNTS),
    "model_call_seconds": ("Time of these calls.", CALL, CALL_SECONDS),
    "model_first_byte_seconds": ("Time to the first byte of the reply.", CALL, CALL_SECONDS),
}  # fmt: skip
"""What is measured: what it means, its labels, and the upper ends of its buckets."""


class Metrics:
    """Counts what happened; with a folder, together with the other processes of the service."""

    def __init__(self, folder: str | None = None) -> None:
        registry = _Registry()
        self._exported: CollectorRegistry = registry
        if folder:
            self._exported = CollectorRegistry()
            MultiProcessCollector(self._exported, path=folder)  # type: ignore[no-untyped-call]
        known: dict[str, Any] = {
            name: Counter(f"{PREFIX}_{name}_total", about, labels.split(), registry=registry)
            for name, (about, labels) in COUNTERS.items()
        }
        for name, (about, labels, buckets) in HISTOGRAMS.items():
            known[name] = Histogram(
                f"{PREFIX}_{name}", about, labels.split(), buckets=buckets, registry=registry
            )
        # Finding a series takes the library 3.7 µs, and 0.5 µs here; a call through the proxy needs eight of them.
        self._series = lru_cache(maxsize=1000)(
            lambda name, *labels: known[name].labels(*labels) if labels else known[name]
        )
        self._lost_so_far = 0
        self._models: set[str] = set()
        # An alert rule watches these from the start: of a series that begins at 1 `increase` sees nothing.
        for stage in Stage:
            self._series("bugs", stage.value)
        for scope in get_args(SpendScope):
            self._series("fuse_calls", scope, "paused")

    def _count(self, *labels: object, **amounts: float) -> None:
        """Add to some counters, which have these labels."""
        for name, amount in amounts.items():
            if amount:
                self._series(name, *labels).inc(amount)

    def _measure(self, *labels: object, **values: float) -> None:
        for name, value in values.items():
            self._series(name, *labels).observe(value)

    def count_request(self, state: RequestState, scope: Scope) -> None:
        """Count a request that was answered, and the context it built."""
        route = route_of(scope)
        method = state.method if state.method in METHODS else "OTHER"
        self._count(route, method, state.status, requests=1)
        self._measure(route, request_seconds=time.perf_counter() - state.started)
        if state.trace:
            self.count_context(state.trace, state.tokens)

    def count_lost_writes(self, total: int) -> None:
        """Count deferred writes that were dropped; `total` is how many this process has lost so far."""
        self._count(writes_lost=max(0, total - self._lost_so_far))
        self._lost_so_far = max(total, self._lost_so_far)

    def count_context(self, trace: Trace, tokens: int) -> None:
        """Count what a trace holds."""
        figures = window_figures(trace)
        self._count(
            contexts=1,
            contexts_empty=not tokens,
            contexts_degraded=bool(trace.degraded),
            contexts_skipped=trace.plan is not None and trace.plan.skip,
            tokens_injected=tokens,
            tokens_saved=tokens_saved(trace),
            selfref_candidates=len(figures.overlaps),
            selfref_penalized=figures.penalized_count,
            selfref_exact_duplicates=figures.exact_duplicate_count,
            selfref_expansion=figures.expansion_triggered,
            selfref_expansion_success=figures.expanded_count > 0,
        )
        for overlap in figures.overlaps:
            self._measure(selfref_overlap_ratio=overlap)
        if figures.overlaps:
            self._measure(selfref_novel_results=figures.novel_result_count)
        for step in trace.steps:
            stage, action = step.stage.value, step.facts.get("action")
            self._measure(stage, stage_seconds=step.seconds)
            self._count(stage, stage_degraded=bool(step.degraded), bugs=step.bug)
            self._count(action, grades=action in GRADES)
            self._count("pending", reviews=bool(step.facts.get("review")))

    def count_review(self, status: str) -> None:
        """Count a review that was asked for or decided."""
        self._count(status, reviews=1)

    def count_call(self, call: ModelCall) -> None:
        """Count a call through the proxy, and the stream that the guard watched."""
        model, cached, judged = self._model_label(call), call.cached_input, call.cache_judgment
        labels = (call.path, call.upstream, model)
        if call.outcome != ENDED:  # such a turn called no model
            self._count(*labels, call.guarded, call.status, model_calls=1)
            self._measure(*labels, model_call_seconds=call.seconds)
            if call.first_byte_s is not None:
                self._measure(*labels, model_first_byte_seconds=call.first_byte_s)
        self._count(*labels, "input", model_tokens=call.input_tokens)
        self._count(*labels, "output", model_tokens=call.output_tokens)
        self._count(
            *labels,
            model_cost=call.cost or 0,
            cache_read_tokens=cached.within + cached.read,
            cache_written_tokens=cached.written,
        )
        if judged is not None and judged.is_break:
            self._count(*labels, judged.blame, cache_lost_tokens=judged.lost)
        self._count_changes(call)
        self._count(model, call.priced_as, fuse_unpriced=bool(call.priced_as and call.answered))
        for status in call.cap_statuses:
            self._count(status.scope, status.state, fuse_calls=1)
        if call.bug is not None:
            self._count(call.bug.value, bugs=1)

    def _count_changes(self, call: ModelCall) -> None:
        """Count what was changed: cuts of the answer; rungs, folds and blocks in the request; and compactions."""
        if (report := call.report) is not None:
            self._count(report.state.value, guard_streams=1)
            self._count(
                guard_stalls=len(report.cuts),
                guard_rollbacks=report.rollbacks,
                guard_recovered=call.guarded == "recovered",
                guard_failed=call.guarded == "failed",
                guard_tokens_wasted=report.wasted_tokens,
            )
        for mark in call.circles.marks:
            self._count(mark.step, circles=1)
        if fold := call.fold:
            self._count(fold.group, fold_tokens=fold.new_tokens if call.answered else 0)
        if call.compaction is not None:
            self._count(call.compaction.way, compactions=1)
        self._count(
            unknown_parts=call.unknown_parts,
            put_back_blocks=len(call.new_blocks),
            put_back_tokens=sum(call.new_blocks),
            fuse_uncounted=bool(call.uncounted),
        )

    def count_lost_trace(self) -> None:
        """Count a trace of a call that could not be stored."""
        self._count(traces_lost=1)

    def _model_label(self, call: ModelCall) -> str:
        """The model, if an upstream answered for it: clients invent names, and a label must have few values."""
        if call.model not in self._models:
            if call.status != 200 or len(self._models) >= MAX_MODELS:
                return "other"
            self._models.add(call.model)
        return call.model

    def text(self, prefix: str = PREFIX) -> str:
        """All metrics in the Prometheus text format, with names that begin with a prefix."""
        text = generate_latest(self._exported).decode()
        if prefix == PREFIX:
            return text
        return re.sub(
            rf"^((?:# (?:HELP|TYPE) )?){PREFIX}_", rf"\1{prefix}_", text, flags=re.MULTILINE
        )


class _Registry(CollectorRegistry):
    """A registry that leaves out when each series was created: those double the number of series."""

    def collect(self) -> Iterable[Metric]:
        for family in super().collect():
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family
