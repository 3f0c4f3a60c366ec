"""Spans: each request and its stages for OpenTelemetry, where its API is installed; else nothing.

A span is made when the answer is on its way, from the times that were measured anyhow, so that tracing costs the request
nothing. The caller's `traceparent` becomes the parent.
"""

import time
from importlib.util import find_spec

from starlette.types import Scope

from headgate.service.request_state import Visit, route_of

_HERE = find_spec("opentelemetry") is not None


def watch(visit: Visit, scope: Scope) -> None:
    """Report a request that was answered, with its stages below it."""
    if not _HERE:
        return
    from opentelemetry import propagate, trace  # noqa: PLC0415  (installed or not, known only now)

    end = time.time_ns()
    begin = end - int(1e9 * (time.perf_counter() - visit.began))
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    tracer = trace.get_tracer("headgate")
    route = route_of(scope)
    span = tracer.start_span(
        f"{visit.method} {route}", context=propagate.extract(headers), start_time=begin,
        kind=trace.SpanKind.SERVER,
        attributes={
            "http.request.method": visit.method, "http.route": route,
            "http.response.status_code": visit.status, "headgate.request_id": visit.id,
        },
    )  # fmt: skip
    if visit.trace:
        span.set_attribute("headgate.trace", visit.trace.id)
        inside, at = trace.set_span_in_context(span), begin
        for step in visit.trace.steps:
            stage = tracer.start_span(f"headgate.{step.stage}", context=inside, start_time=at)
            stage.set_attribute("headgate.kept", step.kept)
            stage.set_attribute("headgate.dropped", step.dropped)
            at += int(1e9 * step.seconds)
            stage.end(at)
    span.end(end)
