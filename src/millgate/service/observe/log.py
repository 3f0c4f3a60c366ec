"""The request log: one JSON line for each request, on the logger "millgate.request".

{time, level, request_id, method, route, status, ms, tenant, key, session_id, trace, candidate_count, penalized_count,
exact_duplicate_count, expansion_triggered, novel_result_count, tokens, degraded}, and for a call through the proxy
{call, model, upstream, guard, unwatched, rollbacks, cut_chars, input_tokens, output_tokens, estimated, cost,
first_byte_ms, error}, with {ignored} if a header of ours is misspelled, and with {cache_read, cache_written,
cache_lost, cache_reason} if the provider reports its cache; the query only if `service.log_query` allows it, and never
the text of a chunk.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

import orjson
from starlette.types import Scope

from millgate.explain.figures import log_keys
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import RequestState, route_of
from millgate.text.redact import redact
from millgate.types.policy import ServicePolicy

LOGGER = logging.getLogger("millgate.request")


def request_logger(policy: ServicePolicy) -> Callable[[RequestState, Scope], None]:
    """An observer that writes the line of a request, if the policy asks for it."""

    def log_request(state: RequestState, scope: Scope) -> None:
        level = line_level(state)
        if policy.log and LOGGER.isEnabledFor(level):
            LOGGER.log(level, "%s", request_line(state, scope, query=policy.log_query))

    return log_request


def line_level(state: RequestState) -> int:
    """A request that failed is an error, one that went on without one of its parts a warning."""
    if state.status >= 500:
        return logging.ERROR
    degraded = state.trace is not None and bool(state.trace.degraded)
    return logging.WARNING if degraded else logging.INFO


def request_line(state: RequestState, scope: Scope, *, query: bool = False) -> str:
    """The line of one request, as JSON."""
    caller, trace = state.caller, state.trace
    line: dict[str, Any] = {
        "time": round(time.time(), 3),
        "level": logging.getLevelName(line_level(state)).lower(),
        "request_id": state.id,
        "method": state.method,
        "route": route_of(scope),
        "status": state.status,
        "ms": round(1000 * (time.perf_counter() - state.started), 3),
        "tenant": caller.tenant if caller else None,
        "key": caller.key if caller else None,
    }
    if trace:
        line |= {
            **log_keys(trace),
            "trace": trace.id,
            "tokens": state.tokens,
            "degraded": list(trace.degraded),
        }
        if query:
            line["query"] = redact(trace.request.query)
    if state.call:
        line |= call_figures(state.call)
    return orjson.dumps(line).decode()


def call_figures(call: ModelCall) -> dict[str, Any]:
    """What a line says of a call through the proxy."""
    report = call.report
    return {
        "call": call.id,
        "model": call.model,
        "upstream": call.upstream,
        "guard": call.guarded,
        **({"ignored": call.ignored} if call.ignored else {}),
        "unwatched": call.unwatched,
        "rollbacks": report.rollbacks if report else 0,
        "cut_chars": report.cut_chars if report else 0,
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "estimated": call.estimated,
        "cost": None if call.cost is None else round(call.cost, 6),
        **_cache_figures(call),
        "first_byte_ms": round(1000 * call.first_byte_s, 3) if call.first_byte_s else None,
        "error": call.problem,
    }


def _cache_figures(call: ModelCall) -> dict[str, Any]:
    """What the provider read from its cache and wrote to it, and, if the cache broke, what that took and why."""
    if (counts := call.cache_counts) is None:
        return {}
    judged = call.cache_judgment
    is_break = judged is not None and judged.is_break
    return {
        "cache_read": counts.read,
        "cache_written": counts.written,
        "cache_lost": judged.lost if judged and is_break else 0,
        "cache_reason": judged.reason if judged and is_break else "",
    }
