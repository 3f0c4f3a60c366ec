"""POST /v1/strategy: should content be loaded whole, searched, or both?"""

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from millgate.errors import LimitError
from millgate.integrations.mcp.schemas import StrategyResult
from millgate.pipeline.stages.decide import window_state
from millgate.pipeline.stages.strategy import context_strategy
from millgate.service.routes.callers import ReadGate
from millgate.service.routes.context import MOST_TOKENS
from millgate.service.routes.parse import Body, Label, StrictRoute, Text
from millgate.service.routes.responses import respond, response_schema
from millgate.types import ContextBudget
from millgate.types.lengths import MOST_LABELS

router = APIRouter(tags=["strategy"], route_class=StrictRoute)

Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]


class StrategyIn(Body):
    """A task, the size of the content, and the model's window. Sizes of files are measured by the library only."""

    query: Text = Field(examples=["compare the two contracts"])
    """The task or the question."""
    content_size_hint: Literal["tiny", "small", "medium", "large", "huge", "massive"] | None = None
    """Rough size of the content."""
    char_count: Tokens | None = None
    """Size of the content in characters; goes before the hint."""
    model_context_length: Tokens = 128_000
    """Length of the model's window, in tokens."""
    used_tokens: int = Field(0, le=MOST_TOKENS, ge=-1)
    """Tokens of the window in use; -1 if unknown."""
    threshold_tokens: Tokens = 0
    """Where the agent begins to compress, in tokens; 0 if unknown."""
    available_tools: list[Label] = Field(default_factory=list, max_length=MOST_LABELS)
    """Tools the agent has; the steps name only these."""


class StrategyOut(StrategyResult):
    """The strategy with the numbers behind it, and what the window's pressure means for recall."""

    tier: str
    pressure: float
    limit: int
    min_trust: float
    skip: bool


@router.post(
    "/v1/strategy", summary="How content should be loaded", responses=response_schema(StrategyOut)
)
async def strategy(body: StrategyIn, gate: ReadGate) -> Response:
    """Whether to load content whole, to search it, or both, and the next steps."""
    settings = gate.settings
    if len(body.query) > settings.limits.query_chars:
        raise LimitError(
            f"query_chars is {len(body.query):,}; it must be 0 to {settings.limits.query_chars:,}",
            hint="the limit is set by limits.query_chars",
        )
    decision = context_strategy(
        body.query,
        content_size_hint=body.content_size_hint,
        char_count=body.char_count,
        model_context_length=body.model_context_length,
        used_tokens=body.used_tokens,
        available_tools=body.available_tools,
        policy=settings.decide,
    )
    window = ContextBudget(body.model_context_length, body.used_tokens, body.threshold_tokens)
    return respond(decision | window_state(window, settings.decide))
