"""Costs: what model calls cost over time, by model, session, key and day, and what was paid because a cache broke.

It is read from the rows of the traces, so it goes back as far as traces are kept. Without prices, tokens are drawn.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from headgate.explain.costs import CostScope, add_up, add_up_by
from headgate.prices import table_date
from headgate.service.auth import require_scope
from headgate.service.dashboard.plots import (
    HEIGHT,
    WIDTH,
    Plot,
    Series,
    bucket_edges,
    draw_bars,
)
from headgate.service.dashboard.render import render
from headgate.service.dashboard.route import PageRoute
from headgate.service.paths import DASHBOARD
from headgate.service.request_state import Caller
from headgate.service.state import service_of
from headgate.types import CallCost, TraceSummary

router = APIRouter(prefix=f"{DASHBOARD}/costs", route_class=PageRoute, include_in_schema=False)

READ = 10_000  # of the newest requests; reading their rows takes about 120 ms
BUCKETS = 40
ROWS = 50  # of each table
COLORS = ("new", "stale", "injected", "tools")  # of the dearest models; the others share one

OTHERS = "other models"
BROKEN = "paid again because the cache broke"

Span = Literal["hour", "day", "week", ""]
SPANS: Final[Mapping[Span, float]] = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0, "": 0.0}
SCOPES: Final[Mapping[CostScope, str]] = {
    "model": "By model",
    "session": "By session",
    "key": "By key",
    "day": "By day",
}


@dataclass(frozen=True, slots=True)
class CostChart:
    """Bars over time: in money, or in tokens if no model has a price."""

    plot: Plot
    edges: Sequence[tuple[float, float]]
    is_money: bool


@router.get("")
async def show_costs(
    request: Request, caller: Annotated[Caller, Depends(require_scope("read"))], span: Span = "day"
) -> Response:
    """What calls cost in the last hour, day or week, or as far back as traces are kept."""
    gate = service_of(request).gate_for(caller)
    now = time.time()
    since = now - SPANS[span] if SPANS[span] else 0.0
    rows = [row for row in await gate.atraces(limit=READ) if row.cost and row.created >= since]
    start = since or min((row.created for row in rows), default=now)
    return render(
        request,
        "costs.html",
        span=span,
        total=add_up(rows),
        chart=draw_costs(rows, start, now) if rows else None,
        tables={scope: list(add_up_by(rows, scope).items())[:ROWS] for scope in SCOPES},
        scopes=SCOPES,
        size=(WIDTH, HEIGHT),
        date=table_date(),
    )


def draw_costs(rows: Sequence[TraceSummary], start: float, end: float) -> CostChart:
    """What calls cost over time: the dearest models, the others together, and on top what a broken cache cost."""
    edges = bucket_edges(start, end, BUCKETS)
    by_model = add_up_by(rows, "model")
    is_money = any(costs.priced for costs in by_model.values())
    named = list(by_model)[: len(COLORS)]
    width = (end - start) / BUCKETS or 1.0
    values: dict[str, list[float]] = {name: [0.0] * BUCKETS for name in (*named, OTHERS, BROKEN)}
    for row in rows:
        call = row.cost
        if call is None:
            continue
        at = min(BUCKETS - 1, max(0, int((row.created - start) / width)))
        paid, again = _amounts(call, is_money=is_money)
        values[call.model if call.model in named else OTHERS][at] += paid - again
        values[BROKEN][at] += again
    colors = dict(zip(named, COLORS, strict=False)) | {OTHERS: "earlier", BROKEN: "repeated"}
    series = [
        Series(name or "(no name)", colors[name], tuple(some))
        for name, some in values.items()
        if any(some)
    ]
    return CostChart(draw_bars(series), edges, is_money)


def _amounts(call: CallCost, *, is_money: bool) -> tuple[float, float]:
    """What a call cost, and what of it a broken cache cost."""
    if is_money:
        return call.cost or 0.0, min(call.lost_cost or 0.0, call.cost or 0.0)
    tokens = call.read + call.written + call.fresh + call.output
    return float(tokens), float(min(call.lost, tokens))
