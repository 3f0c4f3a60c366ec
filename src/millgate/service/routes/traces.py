"""/v1/traces: what happened in each request; why a chunk was left out; a request under other settings."""

import asyncio
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from millgate.explain.as_data import summary_data, trace_data
from millgate.explain.describe import Intervention, describe
from millgate.explain.replay import Outcome
from millgate.explain.why import SettingChange
from millgate.service.routes.callers import ReadGate
from millgate.service.routes.parse import Body, Id, Page, StrictRoute
from millgate.service.routes.responses import respond, response_schema
from millgate.types import Step, TraceSummary
from millgate.types.notes import Fate, NoteCode, Stage

router = APIRouter(prefix="/v1/traces", tags=["traces"], route_class=StrictRoute)


class TracesOut(BaseModel):
    """Requests, newest first."""

    traces: list[TraceSummary]


class NoteOut(BaseModel):
    """What one stage did to one candidate: a code and its numbers, and the sentence made from them."""

    stage: Stage
    fate: Fate
    code: NoteCode
    reason: str
    score: float
    numbers: dict[str, float]
    subject: str


class CandidateOut(BaseModel):
    """A chunk on its way through the gate."""

    id: str
    document: str
    source: str
    title: str
    text: str
    score: float
    kept: bool
    notes: list[NoteOut]


@dataclass(frozen=True, kw_only=True)
class TraceOut(TraceSummary):
    """What happened in a request: plan, steps, and every candidate with its notes."""

    plan: dict[str, Any] | None
    request: dict[str, Any]
    steps: list[Step]
    fates: list[CandidateOut]


class WhyOut(BaseModel):
    """Which stage dropped a chunk and why, and the changes that, applied together, would have kept it."""

    trace: str
    chunk: str
    entered: bool
    stage: str
    reason: str
    notes: list[NoteOut]
    changes: list[SettingChange]
    note: str
    runs: int


class InterventionsOut(BaseModel):
    """What was done to a call, in order."""

    interventions: list[Intervention]


class ReplayIn(Body):
    """What to change: settings by dotted name, and fields of the request such as budget and k."""

    changes: dict[str, Any] = Field(max_length=50, examples=[{"budget": 2000, "grade.floor": 0}])


class ReplayOut(BaseModel):
    """The request before and after: which chunks entered, which left, and the tokens."""

    trace: str
    changes: dict[str, Any]
    before: Outcome
    after: Outcome
    entered: list[str]
    left: list[str]
    reasons: dict[str, str]
    drift: list[str]
    text: str
    tokens: int


@router.get("", summary="Recent requests", responses=response_schema(TracesOut))
async def traces(gate: ReadGate, limit: Page = 50) -> Response:
    """The last requests, newest first."""
    found = await gate.atraces(limit=limit)
    return respond({"traces": [summary_data(one) for one in found]})


@router.get("/{id}", summary="Read a trace", responses=response_schema(TraceOut))
async def trace(id: Id, gate: ReadGate) -> Response:
    """Plan, steps, and every candidate with its notes."""
    return respond(trace_data(await asyncio.to_thread(gate.trace, id)))


@router.get(
    "/{id}/why", summary="What was done to a call?", responses=response_schema(InterventionsOut)
)
async def why_done(id: Id, gate: ReadGate) -> Response:
    """Notes, cuts and caps of a call through the proxy, and what would have changed them."""
    found = await gate.atrace(id)
    return respond({"interventions": list(describe(found).done)})


@router.get(
    "/{id}/why/{chunk:path}", summary="Why not this chunk?", responses=response_schema(WhyOut)
)
async def why(id: Id, chunk: Id, gate: ReadGate) -> Response:
    """Which stage dropped a chunk, and the smallest change that would have kept it."""
    found = await gate.awhy(id, chunk)
    return respond(found.as_dict())


@router.post(
    "/{id}/replay",
    summary="Replay a request under other settings",
    responses=response_schema(ReplayOut),
)
async def replay(id: Id, body: ReplayIn, gate: ReadGate) -> Response:
    """Run a stored request again with changes. Nothing of it is stored."""
    replayed = await gate.areplay(id, body.changes)
    return respond(replayed.as_dict())
