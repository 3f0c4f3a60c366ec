"""/v1/reviews: the questions that wait for a person, and the decisions on them."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from headgate.memory.review import Decision, ReviewQueue
from headgate.service.auth import need
from headgate.service.parse import Body, Page, Strict, Text
from headgate.service.request_state import Caller
from headgate.service.responses import gives, reply
from headgate.service.routes.facts import FactOut, FeedbackOut
from headgate.service.state import hub_of
from headgate.types import ReviewStatus

router = APIRouter(prefix="/v1/reviews", tags=["reviews"], route_class=Strict)

Reviewer = Annotated[Caller, Depends(need("review"))]


class JudgmentIn(Body):
    """A person approves or rejects what was found."""

    status: Literal["approved", "rejected"]
    who: str = ""
    """Who decides; the key's id where nobody is named."""
    note: str = ""
    """A word on the decision."""


class AnswerIn(Body):
    """A person answers the question."""

    status: Literal["answered"]
    answer: Text
    """The answer; it becomes a trusted fact."""
    who: str = ""
    """Who decides; the key's id where nobody is named."""
    note: str = ""
    """A word on the decision."""


Decided = Annotated[AnswerIn | JudgmentIn, Field(discriminator="status")]


class ReviewOut(BaseModel):
    """A question that waits for a person, or what became of it."""

    id: str
    query: str
    collection: str
    status: str
    grades: dict[str, float]
    reason: str
    answer: str
    who: str
    note: str
    created: float
    decided: float
    expires: float


class ReviewsOut(BaseModel):
    """Reviews, oldest first."""

    reviews: list[ReviewOut]


class DecisionOut(BaseModel):
    """The decided review, the fact its answer became, and how the trust of found facts moved."""

    review: ReviewOut
    fact: FactOut | None
    feedback: list[FeedbackOut]


@router.get("", summary="The review queue", responses=gives(ReviewsOut))
async def reviews(
    request: Request,
    caller: Reviewer,
    status: Annotated[ReviewStatus | None, Query(description="Only these.")] = None,
    limit: Page = 100,
) -> Response:
    """The reviews, oldest first."""
    queue = _queue(request, caller)
    found = await asyncio.to_thread(queue.reviews, status)
    return reply({"reviews": found[:limit]})


@router.get("/{id}", summary="One review", responses=gives(ReviewOut))
async def review(id: str, request: Request, caller: Reviewer) -> Response:
    """A question, what was found for it, and what became of it."""
    queue = _queue(request, caller)
    return reply(await asyncio.to_thread(queue.review, id))


@router.post("/{id}", summary="Decide a review", responses=gives(DecisionOut))
async def decide(id: str, asked: Decided, request: Request, caller: Reviewer) -> Response:
    """Answer, approve or reject a question; the first decision stands."""
    queue, who = _queue(request, caller), asked.who or caller.key

    def decided() -> Decision:
        if isinstance(asked, AnswerIn):
            return queue.answer(id, asked.answer, who=who, note=asked.note)
        act = queue.approve if asked.status == "approved" else queue.reject
        return act(id, who=who, note=asked.note)

    done = await asyncio.to_thread(decided)
    hub_of(request).metrics.review(asked.status)
    return reply(done)


def _queue(request: Request, caller: Caller) -> ReviewQueue:
    parts = hub_of(request).gate_for(caller).parts
    return ReviewQueue(parts.store, caller.tenant, parts.settings.review)
