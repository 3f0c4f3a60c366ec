"""Spans: each request and its stages for OpenTelemetry, if its API is installed.

The spans are made after the response is sent, from times that were measured anyway, so tracing costs the request
nothing. The caller's `traceparent` becomes the parent.
"""

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.types import Scope

from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import RequestState, route_of
from millgate.types import Step, Trace
from millgate.types.notes import Stage

if TYPE_CHECKING:
    from opentelemetry.context import Context

_INSTALLED = find_spec("opentelemetry") is not None


def record_spans(state: RequestState, scope: Scope) -> None:
    """Report a request that was answered, with its stages below it."""
    if not _INSTALLED:
        return
    from opentelemetry import propagate, trace  # noqa: PLC0415  (an optional package)

    tracer = trace.get_tracer("millgate")
    if isinstance(tracer, trace.ProxyTracer | trace.NoOpTracer):
        return  # no exporter is set up
    end = time.time_ns()
    start = end - int(1e9 * (time.perf_counter() - state.started))
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    route = route_of(scope)
    span = tracer.start_span(
        f"{state.method} {route}", context=propagate.extract(headers), start_time=start,
        kind=trace.SpanKind.SERVER,
        attributes={
            "http.request.method": state.method, "http.route": route,
            "http.response.status_code": state.status, "millgate.request_id": state.id,
        },
    )  # fmt: skip
    if state.trace:
        span.set_attribute("millgate.trace", state.trace.id)
        context, at = trace.set_span_in_context(span), start
        for step in state.trace.steps:
            stage = tracer.start_span(f"millgate.{step.stage}", context=context, start_time=at)
            stage.set_attributes(_stage_attributes(state.trace, step))
            at += int(1e9 * step.seconds)
            stage.end(at)
    if state.call and state.call.operation:
        _record_call(state.call, trace.set_span_in_context(span))
    span.end(end)


def _stage_attributes(trace: Trace, step: Step) -> dict[str, str | int]:
    """What a stage kept; retrieval also by OpenTelemetry's conventions for generative AI, without query and texts."""
    attributes: dict[str, str | int] = {"millgate.kept": step.kept, "millgate.dropped": step.dropped}  # fmt: skip
    if step.stage is Stage.RETRIEVE:
        attributes |= {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": ", ".join(trace.request.collections),
        }
        if trace.request.k is not None:
            attributes["gen_ai.retrieval.top_k"] = trace.request.k
    if step.degraded:
        attributes["error.type"] = "degraded"
    return attributes


def _record_tools(call: ModelCall, context: "Context", start: int) -> None:
    """Record the tool calls whose results this request brings to the model, by OpenTelemetry's conventions.

    The agent ran them, so when and how long is not known: each is a point in time, with its tool and its id.
    """
    from opentelemetry import trace  # noqa: PLC0415  (an optional package)

    tracer = trace.get_tracer("millgate")
    for name, id in call.tool_results:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": id,
        }
        span = tracer.start_span(
            f"execute_tool {name}", context=context, start_time=start,
            kind=trace.SpanKind.INTERNAL, attributes={k: v for k, v in attributes.items() if v},
        )  # fmt: skip
        span.end(start)


def _record_call(call: ModelCall, context: "Context") -> None:
    """Record the model call by OpenTelemetry's semantic conventions for generative AI."""
    from opentelemetry import trace  # noqa: PLC0415  (an optional package)

    now, now_ns = time.perf_counter(), time.time_ns()
    start = now_ns - int(1e9 * (now - call.began))
    server = urlsplit(call.server)
    cached = call.cached_input
    attributes: dict[str, str | int | float | None] = {
        "gen_ai.operation.name": call.operation,
        "gen_ai.provider.name": call.upstream,
        "gen_ai.request.model": call.model,
        "gen_ai.response.id": call.response_id,
        "gen_ai.conversation.id": call.session,
        # the conventions count what a cache read or wrote as part of the input, Anthropic's API beside it
        "gen_ai.usage.input_tokens": call.input_tokens + cached.read + cached.written,
        "gen_ai.usage.cache_read.input_tokens": cached.within + cached.read,
        "gen_ai.usage.cache_creation.input_tokens": cached.written,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "server.address": server.hostname,
        "server.port": server.port,
        "error.type": call.error,
        "millgate.call": call.id,
        "millgate.guard": call.guarded,
        "millgate.rollbacks": call.report.rollbacks if call.report else 0,
        "millgate.unwatched": call.unwatched,
        "millgate.cost": call.cost,
        "millgate.cache.lost_tokens": call.cache_judgment.lost if call.cache_judgment else None,
        "millgate.cache.reason": call.cache_judgment.reason if call.cache_judgment else None,
    }
    span = trace.get_tracer("millgate").start_span(
        f"{call.operation} {call.model}", context=context, start_time=start,
        kind=trace.SpanKind.CLIENT, attributes={k: v for k, v in attributes.items() if v not in ("", None)},
    )  # fmt: skip
    for cut in call.report.cuts if call.report else ():
        attributes_of_cut: dict[str, str | int] = {
            "channel": cut.channel,
            "reason": cut.reason,
            "cut_chars": cut.cut_chars,
        }
        span.add_event("millgate.cut", attributes_of_cut)
    _record_tools(call, context, start)
    span.end(start + int(1e9 * call.seconds))
