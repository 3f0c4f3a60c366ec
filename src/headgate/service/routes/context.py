"""POST /v1/context: the best context for a query that fits the budget and is new to the window."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from headgate.explain.as_data import context_data
from headgate.keys import KEYLESS
from headgate.service.auth import require_scope
from headgate.service.context_body import ContextIn
from headgate.service.parse import StrictRoute
from headgate.service.request_state import Caller, state_of
from headgate.service.responses import respond, response_schema
from headgate.service.state import service_of

router = APIRouter(tags=["context"], route_class=StrictRoute)


class ChunkOut(BaseModel):
    """A chunk of the block; the last four fields only with `debug`."""

    id: str
    text: str
    title: str
    document: str
    collection: str
    source: str
    score: float
    metadata: dict[str, Any]
    admission: str | None
    self_ref_penalty_applied: bool | None = None
    overlap_ratio: float | None = None
    original_score: float | None = None
    adjusted_score: float | None = None


class PlanOut(BaseModel):
    """What was decided before anything was looked up.

    `limit` facts of at least `min_trust` each memory provider may give; null where nothing is known of the window.
    """

    skip: bool
    tier: str
    pressure: float
    budget: int
    limit: int | None
    min_trust: float | None
    task: str
    group: str
    reasoning: str


class ReportOut(BaseModel):
    """How many candidates were kept and evicted, and the evicted ids by stage and reason."""

    total_candidates: int
    kept: int
    evicted: int
    avg_entropy_kept: float
    avg_entropy_evicted: float
    evicted_by: dict[str, list[str]]


class ContextOut(BaseModel):
    """The block, its chunks, and how it came to be; `report` only where it is asked for."""

    text: str
    chunks: list[ChunkOut]
    token_estimate: int
    sources: list[str]
    graph_context: list[str]
    admissibility_token: str | None
    strategy: str
    plan: PlanOut
    degraded: list[str]
    fallback: str
    fallback_reason: str
    review: str
    latency_ms: float
    trace: str
    report: ReportOut | None = None
    expansion_triggered: bool | None = None


@router.post("/v1/context", summary="Context for a query", responses=response_schema(ContextOut))
async def context(
    body: ContextIn, request: Request, caller: Annotated[Caller, Depends(require_scope("read"))]
) -> Response:
    """The best context that fits the budget and is new to the window, fenced and cited."""
    asked = body.to_request(caller.tenant, caller.key or KEYLESS)
    built = await service_of(request).gate_for(caller).acontext_for(asked)
    state = state_of(request)
    state.trace, state.tokens = built.trace, built.token_estimate
    report: Literal["compact", "none"] = "compact" if body.include_report else "none"
    return respond(context_data(built, debug=body.debug, report=report))
