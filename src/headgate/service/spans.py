"""Spans: each request and its stages for OpenTelemetry, where its API is installed.

The spans are made after the response is sent, from times that were measured anyway, so tracing costs the request nothing.
The caller's `traceparent` becomes the parent.
"""

import time
from importlib.util import find_spec

from starlette.types import Scope

from headgate.service.request_state import RequestState, route_of

_INSTALLED = find_spec("opentelemetry") is not None


def record_spans(state: RequestState, scope: Scope) -> None:
    """Report a request that was answered, with its stages below it."""
    if not _INSTALLED:
        return
    from opentelemetry import propagate, trace  # noqa: PLC0415  (an optional package)

    end = time.time_ns()
    start = end - int(1e9 * (time.perf_counter() - state.started))
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    tracer = trace.get_tracer("headgate")
    route = route_of(scope)
    span = tracer.start_span(
        f"{state.method} {route}", context=propagate.extract(headers), start_time=start,
        kind=trace.SpanKind.SERVER,
        attributes={
            "http.request.method": state.method, "http.route": route,
            "http.response.status_code": state.status, "headgate.request_id": state.id,
        },
    )  # fmt: skip
    if state.trace:
        span.set_attribute("headgate.trace", state.trace.id)
        context, at = trace.set_span_in_context(span), start
        for step in state.trace.steps:
            stage = tracer.start_span(f"headgate.{step.stage}", context=context, start_time=at)
            stage.set_attribute("headgate.kept", step.kept)
            stage.set_attribute("headgate.dropped", step.dropped)
            at += int(1e9 * step.seconds)
            stage.end(at)
    span.end(end)
