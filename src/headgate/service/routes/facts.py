"""/v1/facts: remember, recall, give feedback, forget."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.gateway import Headgate
from headgate.memory.facts import AddedFact, FactHit, Feedback
from headgate.service.auth import require_scope
from headgate.service.parse import Body, Page, StrictRoute, Text
from headgate.service.request_state import Caller
from headgate.service.responses import respond, response_schema
from headgate.service.state import service_of
from headgate.types import Fact

router = APIRouter(prefix="/v1/facts", tags=["facts"], route_class=StrictRoute)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Writer = Annotated[Caller, Depends(require_scope("write"))]
Trust = Annotated[float, Field(ge=0, le=1)]


class FactIn(Body):
    """Something worth remembering."""

    content: Text = Field(examples=["The build runs on Python 3.12."])
    """The fact, in a sentence; one that is known already comes back as it is."""
    category: str = "general"
    """What it is filed under."""
    tags: list[str] = Field(default_factory=list)
    """More words to find it by."""
    trust: Trust | None = None
    """How far it is trusted at first; null for the usual."""


class FeedbackIn(Body):
    """Whether a fact helped."""

    helpful: bool
    note: str = ""
    """Why."""


class FactsOut(BaseModel):
    """Facts: with a query the best first, else by id."""

    facts: list[FactHit]


class ForgottenOut(BaseModel):
    """The id of the forgotten fact."""

    forgotten: str


@router.post("", summary="Remember a fact", responses=response_schema(AddedFact))
async def remember(body: FactIn, request: Request, caller: Writer) -> Response:
    """Remember a fact. A known one is returned as it is; conflicts with others are listed."""
    added = await asyncio.to_thread(
        _gate(request, caller).remember,
        body.content,
        category=body.category,
        tags=body.tags,
        trust=body.trust,
    )
    return respond(added)


@router.get("", summary="Recall facts", responses=response_schema(FactsOut))
async def recall(
    request: Request,
    caller: Reader,
    query: Annotated[str | None, Query(max_length=10_000, description="What they are for.")] = None,
    limit: Page = 20,
    min_trust: Annotated[Trust, Query(description="Least trust.")] = 0.0,
) -> Response:
    """The facts that fit a query, best first; without one, all of them."""
    gate = _gate(request, caller)
    if query is not None:
        hits = await asyncio.to_thread(gate.recall, query, limit=limit, min_trust=min_trust)
        return respond({"facts": hits})
    facts = await asyncio.to_thread(gate.facts.all, min_trust=min_trust)
    return respond({"facts": [FactHit(fact, 1.0, fact.trust) for fact in facts[:limit]]})


@router.get("/{id}", summary="Read a fact", responses=response_schema(Fact))
async def fact(id: str, request: Request, caller: Reader) -> Response:
    """A fact with its history."""
    return respond(await asyncio.to_thread(_gate(request, caller).facts.get, id))


@router.delete("/{id}", summary="Forget a fact", responses=response_schema(ForgottenOut))
async def forget(id: str, request: Request, caller: Writer) -> Response:
    """Forget a fact."""
    await asyncio.to_thread(_gate(request, caller).facts.forget, id)
    return respond({"forgotten": id})


@router.post("/{id}/feedback", summary="Say whether a fact helped", responses=response_schema(Feedback))  # fmt: skip
async def feedback(id: str, body: FeedbackIn, request: Request, caller: Writer) -> Response:
    """Say whether a fact helped; returns its trust before and after."""
    gate = _gate(request, caller)
    return respond(await asyncio.to_thread(gate.feedback, id, helpful=body.helpful, note=body.note))


def _gate(request: Request, caller: Caller) -> Headgate:
    return service_of(request).gate_for(caller)
