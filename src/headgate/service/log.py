"""Log: one structured line a request, on the logger "headgate.request".

{request_id, method, route, status, ms, tenant, key, session, trace, candidates, penalized, exact_duplicates, expansion,
novel, tokens, degraded}; the query only where `service.log_query` allows it, and never a text of a chunk.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
from starlette.types import Scope

from headgate.notes import Fate, NoteCode, Stage
from headgate.policy import ServicePolicy
from headgate.service.request_state import Visit, route_of
from headgate.types import Trace

LOGGER = logging.getLogger("headgate.request")


class Figures(NamedTuple):
    """What a trace says about the window: each candidate's overlap, and what came of it."""

    candidates: int
    overlaps: tuple[float, ...]
    penalized: int
    exact_duplicates: int
    novel: int
    expansion: bool
    expanded: int


def figures(trace: Trace) -> Figures:
    """The numbers of a trace that log and metrics share."""
    known = (c.number(Stage.PENALIZE, "overlap") for c in trace.candidates)
    overlaps = tuple(overlap for overlap in known if overlap is not None)
    notes = [note for c in trace.candidates for note in c.notes]
    return Figures(
        candidates=len(trace.candidates),
        overlaps=overlaps,
        penalized=sum(overlap > 0 for overlap in overlaps),
        exact_duplicates=sum(note.code is NoteCode.IN_WINDOW for note in notes),
        novel=sum(note.code is NoteCode.NEW for note in notes),
        expansion=any(step.stage is Stage.EXPAND for step in trace.steps),
        expanded=sum(
            any(n.stage is Stage.EXPAND and n.fate is not Fate.DROP for n in c.notes)
            and not c.dropped
            for c in trace.candidates
        ),
    )


def watch(policy: ServicePolicy) -> Callable[[Visit, Scope], None]:
    """A watch that writes the line, where the policy asks for it."""

    def write(visit: Visit, scope: Scope) -> None:
        if policy.log and LOGGER.isEnabledFor(logging.INFO):
            LOGGER.info("%s", line(visit, scope, query=policy.log_query))

    return write


def line(visit: Visit, scope: Scope, *, query: bool = False) -> str:
    """The line of one request."""
    caller, trace = visit.caller, visit.trace
    told: dict[str, Any] = {
        "time": round(time.time(), 3),
        "request_id": visit.id,
        "method": visit.method,
        "route": route_of(scope),
        "status": visit.status,
        "ms": round(1000 * (time.perf_counter() - visit.began), 3),
        "tenant": caller.tenant if caller else None,
        "key": caller.key if caller else None,
    }
    if trace:
        seen = figures(trace)
        told |= {
            "session": trace.request.session,
            "trace": trace.id,
            "candidates": seen.candidates,
            "penalized": seen.penalized,
            "exact_duplicates": seen.exact_duplicates,
            "expansion": seen.expansion,
            "novel": seen.novel,
            "tokens": visit.tokens,
            "degraded": list(trace.degraded),
        }
        if query:
            told["query"] = trace.request.query
    return orjson.dumps(told).decode()
