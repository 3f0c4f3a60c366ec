"""/v1/traces: the story of each request; why a chunk was left out; the request under other settings."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.explain.as_data import summary, trace_data
from headgate.service.auth import need
from headgate.service.parse import Body, Page, Strict
from headgate.service.request_state import Caller
from headgate.service.responses import gives, reply
from headgate.service.state import hub_of

router = APIRouter(prefix="/v1/traces", tags=["traces"], route_class=Strict)

Reader = Annotated[Caller, Depends(need("read"))]


class SummaryOut(BaseModel):
    """A request in one row."""

    id: str
    created: float
    query: str
    session: str
    collection: str
    strategy: str
    tier: str
    pressure: float
    skip: bool
    budget: int
    candidates: int
    kept: int
    seconds: float
    degraded: list[str]


class TracesOut(BaseModel):
    """Requests, newest first."""

    traces: list[SummaryOut]


class NoteOut(BaseModel):
    """What one stage did to one candidate."""

    stage: str
    fate: str
    code: str
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


class StepOut(BaseModel):
    """One stage of a request."""

    stage: str
    seconds: float
    came: int
    kept: int
    dropped: int
    added: int
    degraded: str
    bug: bool
    facts: dict[str, Any]


class TraceOut(SummaryOut):
    """The whole story of a request: plan, steps, and every candidate with its notes."""

    plan: dict[str, Any]
    request: dict[str, Any]
    steps: list[StepOut]
    fates: list[CandidateOut]


class ChangeOut(BaseModel):
    """One thing to set otherwise."""

    name: str
    was: Any
    now: Any


class WhyOut(BaseModel):
    """Where a chunk fell, and the changes that, applied together, admit it."""

    trace: str
    chunk: str
    entered: bool
    stage: str
    reason: str
    notes: list[NoteOut]
    changes: list[ChangeOut]
    note: str
    runs: int


class ReplayIn(Body):
    """What to change: settings by dotted name, and of the request budget, k, collection and the like."""

    changes: dict[str, Any] = Field(
        max_length=50, examples=[{"budget": 2000, "gate.order": "entropy"}]
    )


class OutcomeOut(BaseModel):
    """What a run gave."""

    kept: list[str]
    dropped: list[str]
    tokens: int


class ReplayOut(BaseModel):
    """The request before and after: what came in, what went out, and the tokens."""

    trace: str
    changes: dict[str, Any]
    before: OutcomeOut
    after: OutcomeOut
    entered: list[str]
    left: list[str]
    drift: list[str]
    text: str
    tokens: int


@router.get("", summary="Recent requests", responses=gives(TracesOut))
async def traces(request: Request, caller: Reader, limit: Page = 50) -> Response:
    """The last requests, newest first."""
    store = hub_of(request).gate_for(caller).parts.store
    found = await asyncio.to_thread(store.traces, caller.tenant, limit=limit)
    return reply({"traces": [summary(trace) for trace in found]})


@router.get("/{id}", summary="The story of a request", responses=gives(TraceOut))
async def trace(id: str, request: Request, caller: Reader) -> Response:
    """Plan, steps, and every candidate with its notes."""
    gate = hub_of(request).gate_for(caller)
    return reply(trace_data(await asyncio.to_thread(gate.trace, id)))


@router.get("/{id}/why/{chunk:path}", summary="Why not this chunk?", responses=gives(WhyOut))
async def why(id: str, chunk: str, request: Request, caller: Reader) -> Response:
    """Where a chunk fell, and the smallest change with which it would have entered."""
    told = await hub_of(request).gate_for(caller).awhy(id, chunk)
    return reply(told.as_dict())


@router.post("/{id}/replay", summary="The request under other settings", responses=gives(ReplayOut))
async def replay(id: str, asked: ReplayIn, request: Request, caller: Reader) -> Response:
    """Run a stored request again with changes; nothing is stored of it."""
    made = await hub_of(request).gate_for(caller).areplay(id, asked.changes)
    return reply(made.as_dict())
