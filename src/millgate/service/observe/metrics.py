"""Metrics: what the service did, counted from traces and requests after the response is sent.

Labels are routes, methods, statuses, stages, verdicts, upstreams and models: few values, never a tenant, key, session
or id. Each service has a registry of its own. The workers of one service count in files of a shared folder (the
multi-process mode of prometheus_client), and whichever is asked adds them up. There are no gauges, so a worker that
ended needs no cleaning up: its counts stay in the sum.
"""

import re
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

from millgate.explain.figures import tokens_saved, window_figures
from millgate.guard.report import GuardReport, State
from millgate.service.observe.model_call import Guarded, ModelCall
from millgate.service.observe.request_state import RequestState, route_of
from millgate.types import SpendScope, Step, Trace
from millgate.types.notes import Stage
from millgate.types.trace import ENDED

PREFIX = "millgate"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
MAX_MODELS = 200
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 0.95, 1.0)
COUNTS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0, 100.0)
METHODS = frozenset(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
GRADES = frozenset({"correct", "ambiguous", "incorrect"})


class Metrics:
    """Counts what happened; with a folder, together with the other processes of the service."""

    def __init__(self, folder: str | None = None) -> None:
        self._registry = _Registry()
        if folder:
            self._exported = CollectorRegistry()
            MultiProcessCollector(self._exported, path=folder)  # type: ignore[no-untyped-call]
        else:
            self._exported = self._registry
        # Finding a series takes the library 3.7 µs, and 0.5 µs here; a call through the proxy needs eight of them.
        self._child = lru_cache(maxsize=1000)(lambda metric, *labels: metric.labels(*labels))
        self._define_request_metrics()
        self._define_context_metrics()
        self._define_guard_metrics()
        self._define_call_metrics()
        self._begin_at_zero()

    def _define_request_metrics(self) -> None:
        count, measure = self._counter, self._histogram
        self._requests = count("requests", "HTTP requests answered.", "route", "method", "status")
        self._request_seconds = measure("request_seconds", "Time to the end of the response.", SECONDS, "route")  # fmt: skip
        self._reviews = count("reviews", "Reviews asked for and decided.", "status")
        self._lost_writes = count("writes_lost", "Traces and reviews that could not be written behind an answer.")  # fmt: skip
        self._lost_so_far = 0

    def _define_context_metrics(self) -> None:
        count, measure = self._counter, self._histogram
        self._contexts = count("contexts", "Contexts composed.")
        self._empty = count("contexts_empty", "Contexts without a chunk.")
        self._degraded = count("contexts_degraded", "Contexts with a degraded step.")
        self._skipped = count("contexts_skipped", "Contexts skipped because the window was full.")
        self._stage_seconds = measure("stage_seconds", "Time in each stage.", SECONDS, "stage")
        self._stage_degraded = count("stage_degraded", "Degraded steps.", "stage")
        self._bugs = count("bugs", "Steps that ended in an unexpected exception.", "stage")
        self._injected = count("tokens_injected", "Tokens of the contexts given.")
        self._saved = count(
            "tokens_saved", "Tokens of passages left out of contexts because the window shows them."
        )
        self._grades = count("grades", "Requests by the verdict of grading.", "action")
        self._compared = count("selfref_candidates", "Candidates compared with a window.")
        self._penalized = count("selfref_penalized", "Candidates that share text with the window.")
        self._duplicates = count("selfref_exact_duplicates", "Candidates dropped because the window holds them whole.")  # fmt: skip
        self._expansions = count("selfref_expansion", "Requests whose query was expanded.")
        self._expanded = count("selfref_expansion_success", "Expansions that added a chunk.")
        self._overlap = measure("selfref_overlap_ratio", "Overlap of candidates with the window.", RATIOS)  # fmt: skip
        self._novel_results = measure("selfref_novel_results", "Candidates of a request that are new to the window.", COUNTS)  # fmt: skip

    def _define_guard_metrics(self) -> None:
        count = self._counter
        self._streams = count("guard_streams", "Streams that ended under the guard.", "state")
        self._stalls = count("guard_stalls", "Loops found in streams.")
        self._rollbacks = count("guard_rollbacks", "Rollbacks of streams.")
        self._recovered = count("guard_recovered", "Streams that looped and still ended well.")
        self._failed = count("guard_failed", "Streams given up because they kept looping.")
        self._guard_wasted = count("guard_tokens_wasted", "Tokens that were generated and cut.")

    def _define_call_metrics(self) -> None:
        count, measure, call = self._counter, self._histogram, ("route", "upstream", "model")
        self._calls = count("model_calls", "Calls of models through the proxy, by what the guard made of them.", *call, "guard", "status")  # fmt: skip
        self._call_tokens = count("model_tokens", "Tokens of these calls.", *call, "direction")
        self._call_seconds = measure("model_call_seconds", "Time of these calls.", CALL_SECONDS, *call)  # fmt: skip
        self._first_byte = measure("model_first_byte_seconds", "Time to the first byte of the reply.", CALL_SECONDS, *call)  # fmt: skip
        self._cache_read = count("cache_read_tokens", "Input tokens that providers read from their prompt cache.", *call)  # fmt: skip
        self._cache_written = count("cache_written_tokens", "Input tokens that providers wrote to their prompt cache.", *call)  # fmt: skip
        self._cache_lost = count("cache_lost_tokens", "Input tokens paid in full again because a prompt cache broke, by whose doing.", *call, "blame")  # fmt: skip
        self._cost = count("model_cost", "What these calls cost, in the currency of the prices.", *call)  # fmt: skip
        self._lost_traces = count("traces_lost", "Traces of model calls that could not be stored.")
        self._models: set[str] = set()
        self._rungs = count(
            "circles", "Rungs reached by agents that repeat their tool calls.", "rung"
        )
        self._folded = count("fold_tokens", "Tokens that folding took out of requests, or would have, by group of sessions.", "group")  # fmt: skip
        self._fold_stops = count("fold_stops", "Sessions in which folding stopped since the model asked for a folded text again.")  # fmt: skip
        self._compactions = count("compactions", "Compactions of agents' windows that were noticed, by their way.", "way")  # fmt: skip
        self._put_back = count("put_back_blocks", "Blocks put back of what compactions lost.")
        self._put_back_tokens = count("put_back_tokens", "Tokens of these blocks.")
        self._spenders = count("fuse_calls", "Calls by how their spender stood to its cap.", "scope", "state")  # fmt: skip
        self._cap_share = measure("fuse_share", "Share of a cap that was used after a call.", RATIOS, "scope")  # fmt: skip
        self._calls_left = measure("fuse_calls_left", "Calls until a cap is full, at the rate of the last ones.", COUNTS, "scope")  # fmt: skip

        self._unpriced = count("fuse_unpriced", "Calls under a cap in money whose model has no price, by what each counts as.", "model", "priced_as")  # fmt: skip
        self._uncounted = count("fuse_uncounted", "Calls under a cap that could not be counted.")

    def _begin_at_zero(self) -> None:
        """Export what an alert rule watches from the start: of a series that begins at 1 `increase` sees nothing."""
        for stage in Stage:
            self._bugs.labels(stage.value)
        for scope in get_args(SpendScope):
            self._spenders.labels(scope, "paused")

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"millgate_{name}_total", help, labels, registry=self._registry)

    def _histogram(
        self, name: str, help: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"millgate_{name}", help, labels, buckets=buckets, registry=self._registry)

    def count_request(self, state: RequestState, scope: Scope) -> None:
        """Count a request that was answered, and the context it built."""
        route = route_of(scope)
        method = state.method if state.method in METHODS else "OTHER"
        self._child(self._requests, route, method, state.status).inc()
        self._child(self._request_seconds, route).observe(time.perf_counter() - state.started)
        if state.trace:
            self.count_context(state.trace, state.tokens)

    def count_lost_writes(self, total: int) -> None:
        """Count deferred writes that were dropped; `total` is how many this process has lost so far."""
        if total > self._lost_so_far:
            self._lost_writes.inc(total - self._lost_so_far)
            self._lost_so_far = total

    def count_context(self, trace: Trace, tokens: int) -> None:
        """Count what a trace holds."""
        self._contexts.inc()
        self._empty.inc(not tokens)
        self._degraded.inc(bool(trace.degraded))
        self._skipped.inc(trace.plan is not None and trace.plan.skip)
        self._injected.inc(tokens)
        self._saved.inc(tokens_saved(trace))
        for step in trace.steps:
            self._count_step(step)
        self._count_window(trace)

    def count_review(self, status: str) -> None:
        """Count a review that was asked for or decided."""
        self._reviews.labels(status).inc()

    def _count_stream(self, report: GuardReport, guarded: Guarded) -> None:
        """Count a stream that ended under the guard, and what the guard made of it."""
        self._child(self._streams, report.state.value).inc()
        if report.state is State.DONE and not report.cuts and not report.rollbacks:
            return
        self._stalls.inc(len(report.cuts))
        self._rollbacks.inc(report.rollbacks)
        self._recovered.inc(guarded == "recovered")
        self._failed.inc(guarded == "failed")
        self._guard_wasted.inc(report.wasted_tokens)

    def count_call(self, call: ModelCall) -> None:
        """Count a call through the proxy, and the stream that the guard watched."""
        labels = (call.path, call.upstream, self._model_label(call))
        if call.outcome != ENDED:  # such a turn called no model
            self._count_answer(call, labels)
        for direction, tokens in (("input", call.input_tokens), ("output", call.output_tokens)):
            if tokens:
                self._child(self._call_tokens, *labels, direction).inc(tokens)
        self._count_cache(call, labels)
        if call.report is not None:
            self._count_stream(call.report, call.guarded)
        for mark in call.circles.marks:
            self._rungs.labels(mark.step).inc()
        self._count_fold(call)
        self._count_compaction(call)
        self._count_caps(call, labels[-1])

    def _count_caps(self, call: ModelCall, model: str) -> None:
        if call.bug is not None:
            self._bugs.labels(call.bug.value).inc()
        self._uncounted.inc(bool(call.uncounted))
        if call.priced_as and call.answered:
            self._child(self._unpriced, model, call.priced_as).inc()
        for status in call.cap_statuses:
            self._spenders.labels(status.scope, status.state).inc()
            self._cap_share.labels(status.scope).observe(status.share)
            if status.calls_left is not None:
                self._calls_left.labels(status.scope).observe(status.calls_left)

    def _count_answer(self, call: ModelCall, labels: tuple[str, str, str]) -> None:
        self._child(self._calls, *labels, call.guarded, call.status).inc()
        self._child(self._call_seconds, *labels).observe(call.seconds)
        if call.first_byte_s is not None:
            self._child(self._first_byte, *labels).observe(call.first_byte_s)

    def _count_fold(self, call: ModelCall) -> None:
        if call.fold is not None:
            self._folded.labels(call.fold.group).inc(call.fold.report.saved_tokens)
            self._fold_stops.inc(call.fold.has_stopped and call.fold.group == "on")

    def _count_compaction(self, call: ModelCall) -> None:
        if call.compaction is not None:
            self._compactions.labels(call.compaction.way).inc()
        self._put_back.inc(len(call.new_blocks))
        self._put_back_tokens.inc(sum(call.new_blocks))

    def _count_cache(self, call: ModelCall, labels: tuple[str, str, str]) -> None:
        cached, judged = call.cached_input, call.cache_judgment
        if read := cached.within + cached.read:
            self._child(self._cache_read, *labels).inc(read)
        if cached.written:
            self._child(self._cache_written, *labels).inc(cached.written)
        if judged is not None and judged.is_break:
            self._child(self._cache_lost, *labels, judged.blame).inc(judged.lost)
        if call.cost:
            self._child(self._cost, *labels).inc(call.cost)

    def count_lost_trace(self) -> None:
        """Count a trace of a call that could not be stored."""
        self._lost_traces.inc()

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

    def _count_step(self, step: Step) -> None:
        stage = step.stage.value
        self._stage_seconds.labels(stage).observe(step.seconds)
        if step.degraded:
            self._stage_degraded.labels(stage).inc()
        if step.bug:
            self._bugs.labels(stage).inc()
        action = step.facts.get("action")
        if action in GRADES:
            self._grades.labels(action).inc()
        if step.facts.get("review"):
            self.count_review("pending")

    def _count_window(self, trace: Trace) -> None:
        figures = window_figures(trace)
        self._compared.inc(len(figures.overlaps))
        self._penalized.inc(figures.penalized_count)
        self._duplicates.inc(figures.exact_duplicate_count)
        self._expansions.inc(figures.expansion_triggered)
        self._expanded.inc(figures.expanded_count > 0)
        for overlap in figures.overlaps:
            self._overlap.observe(overlap)
        if figures.overlaps:
            self._novel_results.observe(figures.novel_result_count)


class _Registry(CollectorRegistry):
    """A registry that leaves out when each series was created: those double the number of series."""

    def collect(self) -> Iterable[Metric]:
        for family in super().collect():
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family
