"""Costs: what model calls cost over time, by model, session, key and day, and what was paid because a cache broke.

It is read from the rows of the traces, so it goes back as far as traces are kept. Without prices, tokens are drawn.
"""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millgate.explain.costs import CostScope, add_up, add_up_by
from millgate.service.dashboard.plots import Chart
from millgate.service.dashboard.ranges import Span, TimeRange, read_range
from millgate.service.dashboard.render import render
from millgate.service.dashboard.route import PageRoute
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import ReadGate
from millgate.sessions.xray.bars import Series, draw_bars
from millgate.spending.prices import table_version
from millgate.types import CallCost

router = APIRouter(prefix=f"{DASHBOARD}/costs", route_class=PageRoute, include_in_schema=False)

ROWS = 50  # of each table
COLORS = ("new", "stale", "injected", "tools")  # of the dearest models; the others share one

OTHERS = "other models"
BROKEN = "paid again because the cache broke"

SCOPES: Final[Mapping[CostScope, str]] = {
    "model": "By model",
    "session": "By session",
    "key": "By key",
    "day": "By day",
}


@router.get("")
async def show_costs(request: Request, gate: ReadGate, span: Span = "") -> Response:
    """What calls cost in the last hour, day or week, or as far back as traces are kept."""
    shown = await read_range(gate, span)
    return render(
        request,
        "costs.html",
        range=shown,
        total=add_up(shown.rows),
        chart=draw_costs(shown),
        tables={scope: list(add_up_by(shown.rows, scope).items())[:ROWS] for scope in SCOPES},
        scopes=SCOPES,
        version=table_version(),
    )


def draw_costs(shown: TimeRange) -> Chart:
    """What calls cost over time: the dearest models, the others together, and on top what a broken cache cost.

    In money, or in tokens if no model has a price.
    """
    by_model = add_up_by(shown.rows, "model")
    is_money = any(costs.priced for costs in by_model.values())
    named = list(by_model)[: len(COLORS)]
    values = {name: [0.0] * len(shown.edges) for name in (*named, OTHERS, BROKEN)}
    for at, rows in enumerate(shown.split()):
        for call in (row.cost for row in rows if row.cost):
            paid, again = _amounts(call, is_money=is_money)
            values[call.model if call.model in named else OTHERS][at] += paid - again
            values[BROKEN][at] += again
    colors = dict(zip(named, COLORS, strict=False)) | {OTHERS: "earlier", BROKEN: "repeated"}
    series = [
        Series(name or "(no name)", colors[name], tuple(some))
        for name, some in values.items()
        if any(some)
    ]
    about = (
        "what model calls cost"
        if is_money
        else "the tokens of model calls, none of which has a price"
    )
    return Chart("cost", "Over time", about, draw_bars(series), "money" if is_money else "tokens")


def _amounts(call: CallCost, *, is_money: bool) -> tuple[float, float]:
    """What a call cost, and what of it a broken cache cost."""
    if is_money:
        return call.cost or 0.0, min(call.lost_cost or 0.0, call.cost or 0.0)
    tokens = call.read + call.written + call.fresh + call.output
    return float(tokens), float(min(call.lost, tokens))
