"""/v1/traces: what happened in each request; why a chunk was left out; a request under other settings."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from millgate.explain.as_data import summary_data, trace_data
from millgate.explain.describe import Intervention, describe
from millgate.explain.replay import Replay
from millgate.explain.why import Why
from millgate.service.routes.api import Body, Id, Page, ReadGate, Route
from millgate.types import Step, TraceSummary
from millgate.types.notes import Note

router = APIRouter(prefix="/v1/traces", route_class=Route)


@dataclass
class TracesOut:
    """Requests, newest first."""

    traces: list[TraceSummary]


@dataclass
class CandidateOut:
    """A chunk on its way through the gate."""

    id: str
    document: str
    source: str
    title: str
    text: str
    score: float
    kept: bool
    notes: list[Note]


@dataclass(frozen=True, kw_only=True)
class TraceOut(TraceSummary):
    """What happened in a request: plan, steps, and every candidate with its notes."""

    plan: dict[str, Any] | None
    request: dict[str, Any]
    steps: list[Step]
    fates: list[CandidateOut]


@dataclass
class InterventionsOut:
    """What was done to a call, in order."""

    interventions: tuple[Intervention, ...]


class ReplayIn(Body):
    """What to change: settings by dotted name, and fields of the request such as budget and k."""

    changes: dict[str, Any] = Field(max_length=50, examples=[{"budget": 2000, "grade.floor": 0}])


@router.get("", response_model=TracesOut)
def list_traces(gate: ReadGate, limit: Page = 50) -> object:
    """The last requests, newest first."""
    return {"traces": list(map(summary_data, gate.traces(limit=limit)))}


@router.get("/{id}", response_model=TraceOut)
def read_trace(id: Id, gate: ReadGate) -> object:
    """Plan, steps, and every candidate with its notes."""
    return trace_data(gate.trace(id))


@router.get("/{id}/why")
def explain_call(id: Id, gate: ReadGate) -> InterventionsOut:
    """Notes, cuts and caps of a call through the proxy, and what would have changed them."""
    return InterventionsOut(describe(gate.trace(id)).done)


@router.get("/{id}/why/{chunk:path}", response_model=Why)
async def explain_chunk(id: Id, chunk: Id, gate: ReadGate) -> object:
    """Which stage dropped a chunk, and the smallest change that would have kept it."""
    return (await gate.awhy(id, chunk)).as_dict()


@router.post("/{id}/replay", response_model=Replay)
async def replay_request(id: Id, body: ReplayIn, gate: ReadGate) -> object:
    """Run a stored request again with changes; `tokens` says how many more or fewer. Nothing of it is stored."""
    return (await gate.areplay(id, body.changes)).as_dict()
