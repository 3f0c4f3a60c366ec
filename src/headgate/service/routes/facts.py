"""/v1/facts: remember, recall, give feedback, forget."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.service.auth import need
from headgate.service.parse import Body, Page, Strict, Text
from headgate.service.request_state import Caller
from headgate.service.responses import gives, reply
from headgate.service.state import hub_of

router = APIRouter(prefix="/v1/facts", tags=["facts"], route_class=Strict)

Reader = Annotated[Caller, Depends(need("read"))]
Writer = Annotated[Caller, Depends(need("write"))]
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


class TrustOut(BaseModel):
    """One step of a fact's trust."""

    when: float
    old: float
    new: float
    reason: str


class FactOut(BaseModel):
    """A fact, with the trust it has earned and how it came to it."""

    id: str
    content: str
    category: str
    tags: list[str]
    entities: list[str]
    trust: float
    helpful: int
    unhelpful: int
    recalled: int
    created: float
    updated: float
    history: list[TrustOut]


class AddedOut(BaseModel):
    """The fact, whether it is new, and which facts it seems to oppose."""

    fact: FactOut
    new: bool
    conflicts: list[dict[str, Any]]


class HitOut(BaseModel):
    """A fact that fits a query: how well, and what that is worth with its trust and age."""

    fact: FactOut
    relevance: float
    score: float


class FactsOut(BaseModel):
    """Facts: with a query the best first, else by id."""

    facts: list[HitOut]


class FeedbackOut(BaseModel):
    """How feedback moved a fact's trust."""

    id: str
    old: float
    new: float


class ForgottenOut(BaseModel):
    """The id of what is forgotten."""

    forgotten: str


@router.post("", summary="Remember a fact", responses=gives(AddedOut))
async def remember(asked: FactIn, request: Request, caller: Writer) -> Response:
    """Remember a fact; a repeated one returns what is there, one that seems to oppose another says so."""
    gate = hub_of(request).gate_for(caller)
    done = await asyncio.to_thread(
        gate.remember, asked.content, category=asked.category, tags=asked.tags, trust=asked.trust
    )
    return reply(done)


@router.get("", summary="Recall facts", responses=gives(FactsOut))
async def recall(
    request: Request,
    caller: Reader,
    query: Annotated[str | None, Query(max_length=10_000, description="What they are for.")] = None,
    limit: Page = 20,
    min_trust: Annotated[Trust, Query(description="Least trust.")] = 0.0,
) -> Response:
    """The facts that fit a query, best first; without one, all of them."""
    gate = hub_of(request).gate_for(caller)
    if query is not None:
        hits = await asyncio.to_thread(gate.recall, query, limit=limit, min_trust=min_trust)
        return reply({"facts": hits})
    known = await asyncio.to_thread(gate.facts.all, min_trust=min_trust)
    rows = [{"fact": fact, "relevance": 1.0, "score": fact.trust} for fact in known[:limit]]
    return reply({"facts": rows})


@router.get("/{id}", summary="One fact", responses=gives(FactOut))
async def fact(id: str, request: Request, caller: Reader) -> Response:
    """A fact with its history."""
    gate = hub_of(request).gate_for(caller)
    return reply(await asyncio.to_thread(gate.facts.get, id))


@router.delete("/{id}", summary="Forget a fact", responses=gives(ForgottenOut))
async def forget(id: str, request: Request, caller: Writer) -> Response:
    """Forget a fact."""
    gate = hub_of(request).gate_for(caller)
    await asyncio.to_thread(gate.facts.forget, id)
    return reply({"forgotten": id})


@router.post("/{id}/feedback", summary="Did it help?", responses=gives(FeedbackOut))
async def feedback(id: str, asked: FeedbackIn, request: Request, caller: Writer) -> Response:
    """Tell whether a fact helped; its trust before and after."""
    gate = hub_of(request).gate_for(caller)
    told = await asyncio.to_thread(gate.feedback, id, helpful=asked.helpful, note=asked.note)
    return reply(told)
