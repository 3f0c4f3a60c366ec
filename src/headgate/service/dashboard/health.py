"""Health: pressure, savings, times, degraded steps and the index over time, from the traces of the tenant.

The newest two thousand requests are read in one row each. What `headgate doctor` says needs the scope admin: it names
paths of the machine.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from headgate.index.snapshot import BEHIND
from headgate.operations.doctor import examine
from headgate.operations.status import status
from headgate.service.auth import require_scope
from headgate.service.dashboard.plots import (
    HEIGHT,
    WIDTH,
    Plot,
    Series,
    bucket_edges,
    draw_bars,
    draw_lines,
    percentile,
)
from headgate.service.dashboard.render import render
from headgate.service.dashboard.route import PageRoute
from headgate.service.paths import DASHBOARD
from headgate.service.request_state import Caller
from headgate.service.routes.health import check_parts
from headgate.service.state import service_of
from headgate.stores.url import is_postgres
from headgate.types import TraceSummary

router = APIRouter(prefix=f"{DASHBOARD}/health", route_class=PageRoute, include_in_schema=False)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Admin = Annotated[Caller, Depends(require_scope("admin"))]

READ = 2000  # of the newest requests
BUCKETS = 40
REASONS = 20  # reasons of degraded steps that are listed

Span = Literal["", "hour", "day", "week"]
SPANS: Final[Mapping[Span, float]] = {"": 0.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot with its heading, what it shows, and how its numbers are written."""

    id: str
    heading: str
    about: str
    plot: Plot
    unit: str


@router.get("")
async def show_health(request: Request, caller: Reader, span: Span = "") -> Response:
    """The last requests over time, and the parts as they are now."""
    service = service_of(request)
    gate = service.gate_for(caller)
    rows = await gate.atraces(limit=READ)
    newest = max((row.created for row in rows), default=0.0)
    if SPANS[span]:
        rows = [row for row in rows if row.created >= newest - SPANS[span]]
    ready, held = await asyncio.gather(
        check_parts(service), asyncio.to_thread(status, gate, tenant=gate.tenant)
    )
    oldest = min((row.created for row in rows), default=0.0)
    edges = bucket_edges(oldest, newest, BUCKETS) if rows else []
    return render(
        request,
        "health.html",
        rows=rows,
        span=span,
        ready=ready,
        collections=held.tenants[0].collections,
        charts=list(draw_charts(rows, edges)) if rows else [],
        edges=edges,
        counts=[len(some) for some in split(rows, edges)] if rows else [],
        reasons=Counter(reason for row in rows for reason in row.degraded).most_common(REASONS),
        saved=sum(row.saved for row in rows),
        worst=percentile([r.seconds for r in rows if not r.outcome], 0.95),
        size=(WIDTH, HEIGHT),
    )


@router.get("/doctor")
async def show_doctor(request: Request, caller: Admin) -> Response:
    """What `headgate doctor` says."""
    gate = service_of(request).gate_for(caller)
    settings = gate.settings
    folder = None if is_postgres(settings.store) else gate.folder
    found = await asyncio.to_thread(examine, settings, folder and Path(folder))
    return render(request, "doctor.html", found=found)


def draw_charts(
    rows: Sequence[TraceSummary],
    edges: Sequence[tuple[float, float]],
) -> Sequence[Chart]:
    """All plots over the same buckets of time."""
    buckets = split(rows, edges)
    contexts = [[row for row in some if not row.outcome] for some in buckets]
    calls = [[row for row in some if row.outcome] for some in buckets]

    def times(some: Sequence[Sequence[TraceSummary]]) -> tuple[Series, ...]:
        shares = ((0.5, "half", "new"), (0.95, "95 of 100", "stale"), (0.99, "99 of 100", "repeated"))  # fmt: skip
        seconds = [[row.seconds for row in bucket] for bucket in some]
        return tuple(Series(f"{name} took at most", color, tuple(percentile(s, share) for s in seconds)) for share, name, color in shares)  # fmt: skip

    def counts(name: str, color: str, wanted: Callable[[TraceSummary], bool]) -> Series:
        return Series(name, color, tuple(float(sum(map(wanted, some))) for some in buckets))

    pressure = (
        Series("highest", "repeated", tuple(max((r.pressure for r in some), default=None) for some in contexts)),
        Series("mean", "new", tuple(sum(r.pressure for r in some) / len(some) if some else None for some in contexts)),
    )  # fmt: skip
    savings = Series("tokens saved", "new", tuple(float(sum(r.saved for r in some)) for some in buckets))  # fmt: skip
    charts = (
        Chart("requests", "Requests", "how many there were", draw_bars((counts("contexts", "new", lambda r: not r.outcome and not r.skip), counts("skipped", "stale", lambda r: r.skip and not r.outcome), counts("model calls", "earlier", lambda r: bool(r.outcome)))), "count"),
        Chart("pressure", "Pressure", "how full the windows were that contexts were asked for", draw_lines(pressure, top=1.0), "share"),
        Chart("savings", "Savings", "tokens not sent or not generated", draw_bars((savings,)), "count"),
        Chart("context-times", "Time to a context", "the time in all stages", draw_lines(times(contexts)), "ms"),
        Chart("call-times", "Time of model calls", "from the request to the end of the answer", draw_lines(times(calls)), "ms"),
        Chart("degraded", "Degraded requests", "requests that went on without one of their parts; the reasons are below", draw_bars((counts("degraded", "repeated", lambda r: bool(r.degraded)),)), "count"),
        Chart("lag", "Index lag", "contexts made from an index that had not seen all changes of the store", draw_bars((counts("behind", "stale", _is_behind),)), "count"),
    )  # fmt: skip
    return [chart for chart in charts if chart.plot.shapes]


def _is_behind(row: TraceSummary) -> bool:
    return any(BEHIND in reason for reason in row.degraded)


def split(
    rows: Sequence[TraceSummary], edges: Sequence[tuple[float, float]]
) -> list[list[TraceSummary]]:
    """Requests by bucket of time; the buckets have equal length."""
    start, end = edges[0][0], edges[-1][1]
    step = (end - start) / len(edges) or 1.0
    found: list[list[TraceSummary]] = [[] for _ in edges]
    for row in rows:
        at = int((row.created - start) / step)
        found[min(len(edges) - 1, max(0, at))].append(row)
    return found
