"""Spans: each request and its stages for OpenTelemetry, if its API is installed.

The spans are made after the response is sent, from times that were measured anyway, so tracing costs the request
nothing. The caller's `traceparent` becomes the parent.
"""

import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.types import Scope

from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import RequestState, route_of
from millgate.types import Request, Step
from millgate.types.notes import Stage

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Tracer

_INSTALLED = find_spec("opentelemetry") is not None


def record_spans(state: RequestState, scope: Scope) -> None:
    """Report a request that was answered, with its stages and its model call below it."""
    if not _INSTALLED:
        return
    from opentelemetry import propagate, trace  # noqa: PLC0415  (an optional package)

    tracer, kinds = trace.get_tracer("millgate"), trace.SpanKind
    if isinstance(tracer, trace.ProxyTracer | trace.NoOpTracer):
        return  # no exporter is set up
    now, end = time.perf_counter(), time.time_ns()
    start = end - int(1e9 * (now - state.started))
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    route = route_of(scope)
    attributes = {
        "http.request.method": state.method,
        "http.route": route,
        "http.response.status_code": state.status,
        "millgate.request_id": state.id,
        "millgate.trace": state.trace and state.trace.id,
    }
    outside = propagate.extract(headers)
    span = _begin(tracer, f"{state.method} {route}", start, outside, kinds.SERVER, attributes)
    inside = trace.set_span_in_context(span)
    if state.trace:
        for step in state.trace.steps:
            attributes = _stage_attributes(state.trace.request, step)
            stage = _begin(tracer, f"millgate.{step.stage}", start, inside, kinds.INTERNAL, attributes)  # fmt: skip
            start += int(1e9 * step.seconds)
            stage.end(start)
    if (call := state.call) and call.operation:
        start, attributes = end - int(1e9 * (now - call.began)), _call_attributes(call)
        called = _begin(tracer, f"{call.operation} {call.model}", start, inside, kinds.CLIENT, attributes)  # fmt: skip
        for cut in call.report.cuts if call.report else ():
            told: dict[str, Any] = {
                "channel": cut.channel,
                "reason": cut.reason,
                "cut_chars": cut.cut_chars,
            }
            called.add_event("millgate.cut", told)
        # The agent ran the tools, so when and how long is not known: each is a point in time.
        for name, id in call.tool_results:
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": id}  # fmt: skip
            _begin(tracer, f"execute_tool {name}", start, inside, kinds.INTERNAL, attributes).end(start)  # fmt: skip
        called.end(start + int(1e9 * call.seconds))
    span.end(end)


def _begin(  # noqa: PLR0917  (they are those of `start_span`)
    tracer: "Tracer",
    name: str,
    at: int,
    inside: "Context",
    kind: "SpanKind",
    attributes: Mapping[str, Any],
) -> "Span":
    given = {key: value for key, value in attributes.items() if value not in ("", None)}
    return tracer.start_span(name, context=inside, start_time=at, kind=kind, attributes=given)


def _stage_attributes(asked: Request, step: Step) -> dict[str, Any]:
    """What a stage kept; retrieval also by OpenTelemetry's conventions for generative AI, without query and texts."""
    attributes: dict[str, Any] = {
        "millgate.kept": step.kept,
        "millgate.dropped": step.dropped,
        "error.type": "degraded" if step.degraded else None,
    }
    if step.stage is Stage.RETRIEVE:
        attributes |= {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": ", ".join(asked.collections),
            "gen_ai.retrieval.top_k": asked.k,
        }
    return attributes


def _call_attributes(call: ModelCall) -> dict[str, Any]:
    """A model call by OpenTelemetry's conventions for generative AI, and its facts by the names that its trace has."""
    server, cached = urlsplit(call.server), call.cached_input
    return {
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
        **{f"millgate.{name}": value for name, value in call.facts().items()},
        **{f"millgate.cache.{name}": value for name, value in call.cache_facts().items()},
    }
