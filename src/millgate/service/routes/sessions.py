"""/v1/sessions: what sessions, keys and the tenant have spent through the proxy, and resuming what is paused.

Caps are counted in the store. What calls cost, and what broke the provider's cache, is read from their traces, so it
goes back as far as traces are kept.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from millgate.errors import NotFound
from millgate.explain.costs import Costs, CostScope, add_up, add_up_by
from millgate.service.routes.api import Body, Id, Label, Page, ReadGate, ReviewGate, Route
from millgate.spending.limits import CapStatus
from millgate.types import Spend, SpendScope

router = APIRouter(prefix="/v1/sessions", route_class=Route)


@dataclass
class SpenderOut:
    """A spender, and how it stands to its cap, if it has one."""

    spend: Spend
    reading: CapStatus | None


@dataclass
class SessionsOut:
    """Spenders, those used last first."""

    sessions: list[SpenderOut]


@dataclass
class CostsOut:
    """What calls cost by name, the dearest first."""

    costs: dict[str, Costs]


@dataclass
class BreakOut:
    """A call that read less from the provider's cache than it could have: whose doing it was (client, millgate,
    provider, time, or unknown), why, the tokens that were paid in full again, and what they cost, if that is known.
    """

    trace: str
    created: float
    model: str
    blame: str
    reason: str
    lost: int
    cost: float | None


@dataclass
class CompactionOut:
    """A compaction of the agent's window before a call: how much left it, and what the window does not say any more."""

    trace: str
    created: float
    reason: str


@dataclass
class SessionOut:
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


@router.get("")
def list_sessions(
    gate: ReadGate,
    scope: Annotated[SpendScope | None, Query(description="Only spenders of this kind.")] = None,
    limit: Page = 100,
) -> SessionsOut:
    """Sessions, keys and the tenant, those used last first."""
    found = gate.spending.list_spends(scope, limit=limit)
    return SessionsOut([SpenderOut(spend, reading) for spend, reading in found])


@router.get("/costs")
def add_up_costs(
    gate: ReadGate,
    by: Annotated[CostScope, Query(description="What to add up by; days are UTC.")] = "session",
    since: Annotated[float, Query(description="Only calls from this time on, in seconds since the epoch.", ge=0)] = 0.0,
) -> CostsOut:  # fmt: skip
    """What the calls whose traces are kept took and cost, and how often the provider's cache broke."""
    return CostsOut(add_up_by(gate.traces(limit=gate.settings.trace.keep), by, since=since))


@router.get("/{name:path}")
def read_session(gate: ReadGate, name: Id) -> SessionOut:
    """What one session took and cost, what broke the provider's cache, and what its compactions lost."""
    kept = gate.traces(limit=gate.settings.trace.keep)
    calls = [(row, row.cost) for row in kept if row.session == name and row.cost is not None]
    if not calls:
        raise NotFound(f"no call of session {name!r} is traced", hint="see: millgate costs")
    rows = [row for row, _ in calls]
    return SessionOut(
        name,
        add_up(rows),
        add_up_by(rows, "model"),
        breaks=[
            BreakOut(row.id, row.created, cost.model, cost.blame, cost.reason, cost.lost, cost.lost_cost)
            for row, cost in calls
            if cost.blame
        ],
        compactions=[
            CompactionOut(row.id, row.created, row.compaction) for row in rows if row.compaction
        ],
    )  # fmt: skip


@router.post("/resume")
def resume_paused(body: ResumeIn, gate: ReviewGate) -> Spend:
    """Let a session, a key or the tenant go on with its whole cap again."""
    return gate.spending.resume(body.name, body.scope)
