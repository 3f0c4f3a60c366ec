"""Health: pressure, savings, times, degraded steps and the index over time, from the traces of the tenant.

What `millgate doctor` says needs the scope admin: it names paths of the machine.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millgate.index.snapshot import BEHIND
from millgate.operations.doctor import examine
from millgate.operations.status import status
from millgate.service.dashboard.plots import Chart, draw_lines, percentile
from millgate.service.dashboard.ranges import Span, TimeRange, read_range
from millgate.service.dashboard.render import render
from millgate.service.dashboard.route import PageRoute
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import AdminGate, ReadGate
from millgate.service.routes.health import check_parts
from millgate.service.state import service_of
from millgate.sessions.xray.bars import Series, draw_bars
from millgate.stores.url import is_postgres
from millgate.types import TraceSummary

router = APIRouter(prefix=f"{DASHBOARD}/health", route_class=PageRoute, include_in_schema=False)


REASONS = 20  # reasons of degraded steps that are listed


@router.get("")
async def show_health(request: Request, gate: ReadGate, span: Span = "") -> Response:
    """The requests of a range over time, and the parts as they are now."""
    service = service_of(request)
    shown, ready, held = await asyncio.gather(
        read_range(gate, span),
        check_parts(service),
        asyncio.to_thread(status, gate, tenant=gate.tenant),
    )
    rows = shown.rows
    return render(
        request,
        "health.html",
        range=shown,
        ready=ready,
        collections=held.tenants[0].collections,
        charts=draw_charts(shown),
        reasons=Counter(reason for row in rows for reason in row.degraded).most_common(REASONS),
        saved=sum(row.saved for row in rows),
        degraded=sum(bool(row.degraded) for row in rows),
        slow=percentile([r.seconds for r in rows if not r.outcome], 0.95),
    )


@router.get("/doctor")
async def show_doctor(request: Request, gate: AdminGate) -> Response:
    """What `millgate doctor` says."""
    settings = gate.settings
    folder = None if is_postgres(settings.store) else gate.folder
    found = await asyncio.to_thread(examine, settings, folder and Path(folder))
    return render(request, "doctor.html", found=found)


def draw_charts(shown: TimeRange) -> list[Chart]:
    """All plots over the same buckets of time, those that have something to show."""
    buckets = shown.split()
    contexts = [[row for row in some if not row.outcome] for some in buckets]
    calls = [[row for row in some if row.is_model_call] for some in buckets]

    def times(some: Sequence[Sequence[TraceSummary]]) -> tuple[Series, ...]:
        seconds = [[row.seconds for row in bucket] for bucket in some]
        shares = ((0.95, "p95", "stale"), (0.5, "p50", "new"))
        return tuple(Series(name, color, tuple(percentile(s, share) for s in seconds)) for share, name, color in shares)  # fmt: skip

    def counts(name: str, color: str, wanted: Callable[[TraceSummary], bool]) -> Series:
        return Series(name, color, tuple(float(sum(map(wanted, some))) for some in buckets))

    pressure = (
        Series("highest", "repeated", tuple(max((r.pressure for r in some), default=None) for some in contexts)),
        Series("mean", "new", tuple(sum(r.pressure for r in some) / len(some) if some else None for some in contexts)),
    )  # fmt: skip
    savings = Series("not sent twice", "new", tuple(float(sum(r.saved for r in some)) for some in buckets))  # fmt: skip
    charts = (
        Chart("requests", "Requests", "how many there were", draw_bars((counts("contexts", "new", lambda r: not r.outcome and not r.skip), counts("skipped", "stale", lambda r: r.skip and not r.outcome), counts("model calls", "earlier", lambda r: r.is_model_call))), "count"),
        Chart("pressure", "Pressure", "how full the windows were that contexts were asked for", draw_lines(pressure, top=1.0), "share"),
        Chart("savings", "Tokens not sent twice", "passages left out because the window shows them, and text that was folded", draw_bars((savings,)), "tokens"),
        Chart("context-times", "Time to a context", "how long contexts took, in all stages together", draw_lines(times(contexts)), "ms"),
        Chart("call-times", "Time of model calls", "how long model calls took, to the end of the answer", draw_lines(times(calls)), "ms"),
        Chart("degraded", "Degraded requests", "requests that went on without one of their parts; the reasons are below", draw_bars((counts("degraded", "repeated", lambda r: bool(r.degraded)),)), "count"),
        Chart("lag", "Index lag", "contexts made from an index that had not seen all changes of the store", draw_bars((counts("behind", "stale", _is_behind),)), "count"),
    )  # fmt: skip
    return [chart for chart in charts if chart.plot.shapes]


def _is_behind(row: TraceSummary) -> bool:
    return any(BEHIND in reason for reason in row.degraded)
