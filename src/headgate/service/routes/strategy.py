"""POST /v1/strategy: should content be stuffed, searched, or both?"""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.errors import InputError, LimitError
from headgate.service.auth import need
from headgate.service.parse import Body, Strict, Text
from headgate.service.request_state import Caller
from headgate.service.responses import gives, reply
from headgate.service.state import hub_of
from headgate.stages.strategy import context_strategy
from headgate.types import ContextBudget

router = APIRouter(tags=["strategy"], route_class=Strict)

Tokens = Annotated[int, Field(ge=0, le=10**12)]


class StrategyIn(Body):
    """What is to be done, with how much content, in what window. Files are measured where they lie: by the library."""

    query: Text = Field(examples=["compare the two contracts"])
    """What is to be done or answered."""
    content_size_hint: Literal["tiny", "small", "medium", "large", "huge", "massive"] | None = None
    """Rough size of the content."""
    char_count: Tokens | None = None
    """Size of the content in characters; comes before the hint."""
    model_context_length: Tokens = 128_000
    """Length of the model's window, in tokens."""
    used_tokens: int = Field(0, le=10**12, ge=-1)
    """Tokens of the window in use; -1 where unknown."""
    threshold_tokens: Tokens = 0
    """Where compression begins, in tokens; 0 where unknown."""
    available_tools: list[str] = Field(default_factory=list)
    """Tools the agent has; the steps name only these."""


class StrategyOut(BaseModel):
    """The verdict, with the numbers it rests on."""

    strategy: str
    confidence: float
    reasoning: str
    available_budget: int
    utilization_pct: float
    retrieval_budget_tokens: int
    steps: list[str]
    content_tokens: int
    model_context_length: int
    used_tokens: int
    task_type: str
    group: str
    tier: str
    pressure: float


@router.post("/v1/strategy", summary="How content should be loaded", responses=gives(StrategyOut))
async def strategy(
    asked: StrategyIn, request: Request, caller: Annotated[Caller, Depends(need("read"))]
) -> Response:
    """Whether to load content whole, to search it, or both, and the next steps."""
    settings = hub_of(request).gate_for(caller).parts.settings
    if not asked.query.strip():
        raise InputError("the query is empty", hint="say what is to be done or answered")
    if len(asked.query) > settings.limits.query_chars:
        raise LimitError(
            f"query_chars is {len(asked.query):,}; it must be 0 to {settings.limits.query_chars:,}",
            hint="the limit is set by limits.query_chars",
        )
    told = context_strategy(
        asked.query,
        content_size_hint=asked.content_size_hint,
        char_count=asked.char_count,
        model_context_length=asked.model_context_length,
        used_tokens=asked.used_tokens,
        available_tools=asked.available_tools,
        policy=settings.decide,
    )
    window = ContextBudget(asked.model_context_length, asked.used_tokens, asked.threshold_tokens)
    return reply(told | {"tier": window.tier.name, "pressure": window.pressure})
