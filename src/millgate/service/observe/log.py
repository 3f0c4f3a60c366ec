"""The request log: one JSON line for each request, on the logger "millgate.request".

{time, level, request_id, method, route, status, ms, tenant, key, session_id, trace, candidate_count, penalized_count,
exact_duplicate_count, expansion_triggered, novel_result_count, tokens, degraded}, and of a call through the proxy
{call, error}, its facts by the names that its trace has (`ModelCall.facts`), and those of the provider's cache as
{cache_read, cache_lost, ...}; the query only if `service.log_query` allows it, and never the text of a chunk.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

import orjson
from starlette.types import Scope

from millgate.explain.log import log_keys
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
    if call := state.call:
        cached = {f"cache_{name}": value for name, value in call.cache_facts().items()}
        line |= {"call": call.id, **call.facts(), **cached, "error": call.problem}
    return orjson.dumps(line).decode()
