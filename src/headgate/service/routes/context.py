"""POST /v1/context: the best context for a query that fits the budget and is new to the window."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from headgate.explain.as_data import context_data
from headgate.service.auth import require_scope
from headgate.service.context_body import ContextIn
from headgate.service.parse import StrictRoute
from headgate.service.request_state import Caller, state_of
from headgate.service.responses import respond, response_schema
from headgate.service.state import service_of
from headgate.types import Report

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


class ContextOut(BaseModel):
    """The block, its chunks, and how it came to be."""

    text: str
    chunks: list[ChunkOut]
    token_estimate: int
    sources: list[str]
    graph_context: list[str]
    admissibility_token: str | None
    strategy: str
    degraded: list[str]
    fallback: str
    fallback_reason: str
    review: str
    latency_ms: float
    trace: str
    report: Report
    expansion_triggered: bool | None = None


@router.post("/v1/context", summary="Context for a query", responses=response_schema(ContextOut))
async def context(
    body: ContextIn, request: Request, caller: Annotated[Caller, Depends(require_scope("read"))]
) -> Response:
    """The best context that fits the budget and is new to the window, fenced and cited."""
    built = await service_of(request).gate_for(caller).acontext_for(body.to_request(caller.tenant))
    state = state_of(request)
    state.trace, state.tokens = built.trace, built.token_estimate
    return respond(context_data(built, debug=body.debug))
