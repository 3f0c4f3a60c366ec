"""Health: pressure, savings, times and degraded steps over time, from the tenant's traces; and the parts now."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from millgate.operations.status import status
from millgate.service.dashboard.page import PageRoute, render
from millgate.service.dashboard.ranges import Span, TimeRange, read_range
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import ReadGate
from millgate.service.routes.health import ReadyOut, check_parts
from millgate.service.state import service_of
from millgate.sessions.xray.bars import Plot, Series, draw
from millgate.types import TraceSummary

router = APIRouter(prefix=f"{DASHBOARD}/health", route_class=PageRoute)

REASONS = 20  # reasons of degraded steps that are listed


async def _check(request: Request) -> ReadyOut:
    return await check_parts(service_of(request))


@router.get("")
def show_health(
    request: Request,
    gate: ReadGate,
    ready: Annotated[ReadyOut, Depends(_check)],
    span: Span = "",
) -> Response:
    """The requests of a range over time, and the parts as they are now."""
    shown = read_range(gate, span)
    rows = shown.rows
    return render(
        request,
        "health.html",
        range=shown,
        ready=ready,
        collections=status(gate, tenant=gate.tenant).tenants[0].collections,
        charts=draw_charts(shown),
        reasons=Counter(reason for row in rows for reason in row.degraded).most_common(REASONS),
        saved=sum(row.saved for row in rows),
        degraded=sum(bool(row.degraded) for row in rows),
        slow=percentile([row.seconds for row in rows if not row.outcome], 0.95),
    )


def draw_charts(shown: TimeRange) -> list[Plot]:
    """All plots over the same buckets of time, those that have something to show."""

    def count(name: str, color: str, wanted: Callable[[TraceSummary], bool]) -> Series:
        return Series(name, color, shown.measure(lambda some: float(sum(map(wanted, some)))))

    def times(wanted: Callable[[TraceSummary], bool]) -> list[Series]:
        def of(share: float) -> list[float | None]:
            return shown.measure(lambda some: percentile([r.seconds for r in some if wanted(r)], share))  # fmt: skip

        return [Series("p95", "stale", of(0.95)), Series("p50", "new", of(0.5))]

    def pressures(some: Sequence[TraceSummary]) -> list[float]:
        return [row.pressure for row in some if is_context(row)]

    def is_context(row: TraceSummary) -> bool:
        return not row.outcome

    plots = (
        draw(
            "requests", "Requests", "how many there were", "count",
            count("contexts", "new", lambda row: is_context(row) and not row.skip),
            count("skipped", "stale", lambda row: is_context(row) and row.skip),
            count("model calls", "earlier", lambda row: row.is_model_call),
        ),
        draw(
            "pressure", "Pressure", "how full the windows were that contexts were asked for", "share",
            Series("highest", "repeated", shown.measure(lambda some: max(pressures(some), default=None))),
            Series("median", "new", shown.measure(lambda some: percentile(pressures(some), 0.5))),
            lines=True, top=1.0,
        ),
        draw(
            "savings", "Tokens not sent twice", "passages left out because the window shows them, and text that was folded", "tokens",
            Series("not sent twice", "new", shown.measure(lambda some: sum(row.saved for row in some))),
        ),
        draw("context-times", "Time to a context", "how long contexts took, in all stages together", "ms", *times(is_context), lines=True),
        draw("call-times", "Time of model calls", "how long model calls took, to the end of the answer", "ms", *times(lambda row: row.is_model_call), lines=True),
        draw("degraded", "Degraded requests", "requests that went on without one of their parts; the reasons are below", "count", count("degraded", "repeated", lambda row: bool(row.degraded))),
    )  # fmt: skip
    return [plot for plot in plots if plot.shapes]


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that a share of the values does not exceed; None if there are none."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None
