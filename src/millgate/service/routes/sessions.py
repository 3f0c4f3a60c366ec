"""/v1/sessions: what sessions, keys and the tenant have spent through the proxy, and resuming what is paused.

Caps are counted in the store. What calls cost, and what broke the provider's cache, is read from their traces, so it
goes back as far as traces are kept.
"""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.responses import Response

from millgate.errors import NotFound
from millgate.explain.costs import Costs, CostScope, add_up, add_up_by
from millgate.service.routes.callers import ReadGate, ReviewGate
from millgate.service.routes.parse import Body, Id, Label, Page, StrictRoute
from millgate.service.routes.responses import respond, response_schema
from millgate.spending.limits import CapStatus
from millgate.types import Spend, SpendScope

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=StrictRoute)


class SpenderOut(BaseModel):
    """A spender, and how it stands to its cap, if it has one."""

    spend: Spend
    reading: CapStatus | None


class SessionsOut(BaseModel):
    """Spenders, those used last first."""

    sessions: list[SpenderOut]


class CostsOut(BaseModel):
    """What calls cost by name, the dearest first."""

    costs: dict[str, Costs]


class BreakOut(BaseModel):
    """A call that read less from the provider's cache than it could have."""

    trace: str
    created: float
    model: str
    blame: str
    """client, millgate, provider, time, or unknown."""
    reason: str
    lost: int
    """Tokens that were paid in full again."""
    cost: float | None
    """What that cost; null if the model has no price."""


class CompactionOut(BaseModel):
    """A compaction of the agent's window before a call."""

    trace: str
    created: float
    reason: str
    """How much left the window, and what of it the window does not say any more."""


class SessionOut(BaseModel):
    """What one session took and cost, by model, what broke the provider's cache, and its compactions, newest first."""

    name: str
    total: Costs
    models: dict[str, Costs]
    breaks: list[BreakOut]
    compactions: list[CompactionOut]


class ResumeIn(Body):
    """Whom to resume."""

    name: Label = ""
    """The session's name, or the key's id; empty for the tenant."""
    scope: SpendScope = "session"
    """What it is."""


@router.get("", summary="What was spent", responses=response_schema(SessionsOut))
async def sessions(
    gate: ReadGate,
    scope: Annotated[SpendScope | None, Query(description="Only spenders of this kind.")] = None,
    limit: Page = 100,
) -> Response:
    """Sessions, keys and the tenant, those used last first."""
    spending = gate.spending
    found = await spending.alist_spends(scope, limit=limit)
    return respond({"sessions": [{"spend": spend, "reading": read} for spend, read in found]})


@router.get("/costs", summary="What calls cost", responses=response_schema(CostsOut))
async def costs(
    gate: ReadGate,
    by: Annotated[CostScope, Query(description="What to add up by; days are UTC.")] = "session",
    since: Annotated[float, Query(description="Only calls from this time on, in seconds since the epoch.", ge=0)] = 0.0,
) -> Response:  # fmt: skip
    """What the calls whose traces are kept took and cost, and how often the provider's cache broke."""
    rows = await gate.atraces(limit=gate.settings.trace.keep)
    found = add_up_by(rows, by, since=since)
    return respond({"costs": {name: asdict(one) for name, one in found.items()}})


@router.get("/{name:path}", summary="One session", responses=response_schema(SessionOut))
async def session(gate: ReadGate, name: Id) -> Response:
    """What one session took and cost, what broke the provider's cache, and what its compactions lost."""
    kept = await gate.atraces(limit=gate.settings.trace.keep)
    rows = [row for row in kept if row.session == name and row.cost is not None]
    if not rows:
        raise NotFound(f"no call of session {name!r} is traced", hint="see: millgate costs")
    breaks = [
        {
            "trace": row.id,
            "created": row.created,
            "model": row.cost.model,
            "blame": row.cost.blame,
            "reason": row.cost.reason,
            "lost": row.cost.lost,
            "cost": row.cost.lost_cost,
        }
        for row in rows
        if row.cost and row.cost.blame
    ]
    compactions = [
        {"trace": row.id, "created": row.created, "reason": row.compaction}
        for row in rows
        if row.compaction
    ]
    models = {model: asdict(one) for model, one in add_up_by(rows, "model").items()}
    return respond({"name": name, "total": asdict(add_up(rows)), "models": models, "breaks": breaks, "compactions": compactions})  # fmt: skip


@router.post("/resume", summary="Resume what is paused", responses=response_schema(Spend))
async def resume(body: ResumeIn, gate: ReviewGate) -> Response:
    """Let a session, a key or the tenant go on with its whole cap again."""
    spending = gate.spending
    return respond(await spending.aresume(body.name, body.scope))
