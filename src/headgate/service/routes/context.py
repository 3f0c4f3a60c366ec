"""POST /v1/context: the best context for a query that fits the budget and is new to the window."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.explain.as_data import context_data
from headgate.service.auth import need
from headgate.service.parse import Body, Strict, Text
from headgate.service.request_state import Caller, visit_of
from headgate.service.responses import gives, reply
from headgate.service.state import hub_of
from headgate.types import ContextBudget, Window
from headgate.types import Request as Question

router = APIRouter(tags=["context"], route_class=Strict)

Block = str | dict[str, Any]


class ContextIn(Body):
    """A question, and what the caller knows about the moment it is asked in."""

    query: Text = Field(examples=["how do refunds work?"])
    """What the context is for."""
    collection: str = Field("main", min_length=1)
    """Which collection to search."""
    max_tokens: int = Field(500, ge=0, examples=[500])
    """Budget of the block, in tokens."""
    k_rag: int | None = Field(5, ge=1)
    """Most chunks to give; null for whatever fits."""
    current_window_fingerprint: dict[str, Any] | None = None
    """Fingerprint of what the model already sees, where its text is not sent; comes before the other two."""
    current_window_blocks: list[Block] | None = None
    """What the model already sees, as texts or chat messages."""
    current_window_text: str | None = None
    """What the model already sees, as one text."""
    enable_self_ref_penalty: bool = True
    """Whether to push down what the model already sees."""
    include_graph: bool = True
    """Whether knowledge edges take part."""
    context_length: int | None = Field(None, ge=0)
    """Length of the model's window, in tokens; with it the answer follows how full the window is."""
    used_tokens: int = 0
    """Tokens of the window in use; negative where unknown."""
    threshold_tokens: int = Field(0, ge=0)
    """Where compression begins, in tokens; 0 where unknown."""
    task: str | None = None
    """The kind of task, where the caller knows it."""
    session_id: str = ""
    """The conversation this belongs to."""
    cwd: str = ""
    """The caller's working folder; its last name counts as the project."""
    detail: Literal["whole", "preview"] = "whole"
    """int chunks, or previews of at most 300 characters."""
    order: Literal["rank", "edges"] = "rank"
    """Best first, or best first and last."""
    best_effort: bool = False
    """Whether to give what the model already sees when there is nothing else."""
    debug: bool = False
    """Whether to add the numbers behind each chunk."""

    def question(self, tenant: str) -> Question:
        """The request that the library understands."""
        seen = self.current_window_fingerprint
        window = Window.of(
            seen if seen is not None else self.current_window_blocks or self.current_window_text
        )
        budget = None
        if self.context_length is not None:
            budget = ContextBudget(self.context_length, self.used_tokens, self.threshold_tokens)
        return Question(
            self.query,
            budget=self.max_tokens,
            tenant=tenant,
            collection=self.collection,
            window=window,
            k=self.k_rag,
            context_budget=budget,
            task=self.task,
            session=self.session_id,
            cwd=self.cwd,
            penalize=self.enable_self_ref_penalty,
            graph=self.include_graph,
            best_effort=self.best_effort,
            detail=self.detail,
            order=self.order,
        )


class ChunkOut(BaseModel):
    """A chunk of the block; the last four only with `debug`."""

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


class ReportOut(BaseModel):
    """What was kept and evicted, with a reason for each evicted id."""

    total_candidates: int
    kept: int
    evicted: int
    avg_entropy_kept: float
    avg_entropy_evicted: float
    evicted_ids: list[str]
    reasons: dict[str, str]


class ContextOut(BaseModel):
    """The block, what went into it, and how it came to be."""

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
    report: ReportOut
    expansion_triggered: bool | None = None


@router.post("/v1/context", summary="Context for a query", responses=gives(ContextOut))
async def context(
    asked: ContextIn, request: Request, caller: Annotated[Caller, Depends(need("read"))]
) -> Response:
    """The best context that fits the budget and is new to the window, fenced and cited."""
    made = await hub_of(request).gate_for(caller).acontext_for(asked.question(caller.tenant))
    visit = visit_of(request)
    visit.trace, visit.tokens = made.trace, made.token_estimate
    return reply(context_data(made, debug=asked.debug))
