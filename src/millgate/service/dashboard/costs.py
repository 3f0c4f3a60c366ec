"""Costs: what model calls cost over time, by model, session, key and day, what was paid because a cache broke, and the
sessions with their caps.

It is read from the rows of the traces, so it goes back as far as traces are kept. Without prices, tokens are drawn.
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millgate.explain.costs import CostScope, add_up, add_up_by
from millgate.service.dashboard.page import PageRoute, link, read_form, redirect, render
from millgate.service.dashboard.ranges import Span, TimeRange, read_range
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import ReadGate, ReviewGate
from millgate.sessions.xray.bars import Plot, Series, draw
from millgate.spending.prices import table_version

router = APIRouter(prefix=f"{DASHBOARD}/costs", route_class=PageRoute)

ROWS = 50  # of each table
COLORS = ("new", "stale", "injected", "tools")  # of the dearest models; the others share one
OTHERS, BROKEN = "other models", "paid again because the cache broke"
SCOPES: tuple[CostScope, ...] = ("model", "session", "key", "day")


@router.get("")
def show_costs(request: Request, gate: ReadGate, span: Span = "") -> Response:
    """What calls cost in the last hour, day or week, or as far back as traces are kept."""
    shown = read_range(gate, span)
    return render(
        request,
        "costs.html",
        range=shown,
        total=add_up(shown.rows),
        chart=draw_costs(shown),
        tables={scope: list(add_up_by(shown.rows, scope).items())[:ROWS] for scope in SCOPES},
        spends=gate.spending.list_spends("session", limit=ROWS),
        prices=table_version(),
    )


@router.post("/resume")
async def resume(request: Request, gate: ReviewGate) -> Response:
    """Let a paused session go on."""
    await gate.spending.aresume((await read_form(request)).get("session", ""))
    return redirect(link("/costs"))


def draw_costs(shown: TimeRange) -> Plot:
    """What calls cost over time: the dearest models, the others together, and on top what a broken cache cost.

    In money, or in tokens if no model has a price.
    """
    by_model = add_up_by(shown.rows, "model")
    is_money = any(costs.priced for costs in by_model.values())
    colors = dict(zip(by_model, COLORS, strict=False)) | {OTHERS: "earlier", BROKEN: "repeated"}
    values = {name: [0.0] * len(shown.begins) for name in colors}
    for at, rows in enumerate(shown.split()):
        for call in (row.cost for row in rows if row.cost):
            paid: float = call.read + call.written + call.fresh + call.output
            again: float = call.lost
            if is_money:
                paid, again = call.cost or 0.0, call.lost_cost or 0.0
            again = min(again, paid)
            values[call.model if call.model in values else OTHERS][at] += paid - again
            values[BROKEN][at] += again
    series = [Series(name or "(no name)", colors[name], some) for name, some in values.items() if any(some)]  # fmt: skip
    if is_money:
        return draw("cost", "Over time", "what model calls cost", "money", *series)
    about = "the tokens of model calls, none of which has a price"
    return draw("cost", "Over time", about, "tokens", *series)
