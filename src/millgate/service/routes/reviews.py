"""/v1/reviews: the questions that wait for a person, and the decisions on them."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from millgate.knowledge.review import Decision
from millgate.published.entropy_gating import REVIEWS
from millgate.service.routes.callers import Reviewer, ReviewGate
from millgate.service.routes.parse import Body, Id, Label, Note, Page, StrictRoute, Text
from millgate.service.routes.responses import respond, response_schema
from millgate.service.state import service_of
from millgate.types import Fact, Review, ReviewStatus

router = APIRouter(prefix="/v1/reviews", tags=["reviews"], route_class=StrictRoute)


class JudgmentIn(Body):
    """A person approves or rejects what was found."""

    status: Literal["approved", "rejected"]
    who: Label = ""
    """Who decides; the id of the key if no name is given."""
    note: Note = ""
    """A comment on the decision."""


class AnswerIn(Body):
    """A person answers the question."""

    status: Literal["answered"]
    answer: Text
    """The answer; it becomes a trusted fact."""
    confirmed: str | None = None
    """The content of the draft, as the reviewer saw it; if the fact would be stored otherwise, it is refused."""
    who: Label = ""
    """Who decides; the id of the key if no name is given."""
    note: Note = ""
    """A comment on the decision."""


DecisionIn = Annotated[AnswerIn | JudgmentIn, Field(discriminator="status")]


class DraftIn(Body):
    """An answer that is not given yet."""

    answer: Text


class ReviewsOut(BaseModel):
    """Reviews, oldest first."""

    reviews: list[Review]


@router.get("", summary="The review queue", responses=response_schema(ReviewsOut))
async def reviews(
    gate: ReviewGate,
    status: Annotated[
        ReviewStatus | None, Query(description="Only reviews with this status.")
    ] = None,
    limit: Page = 100,
) -> Response:
    """The reviews, oldest first."""
    found = await gate.reviews.areviews(status)
    return respond({"reviews": found[:limit]})


@router.get("/{id}", summary="Read a review", responses=response_schema(Review))
async def review(id: Id, gate: ReviewGate) -> Response:
    """A question, what was found for it, and how it was decided."""
    return respond(await gate.reviews.areview(id))


@router.post("/{id}", summary="Decide a review", responses=response_schema(Decision))
async def decide_review(
    id: Id, body: DecisionIn, request: Request, gate: ReviewGate, caller: Reviewer
) -> Response:
    """Answer, approve or reject a question; the first decision stands."""
    queue, who = gate.reviews, body.who or caller.key

    def apply_decision() -> Decision:
        if isinstance(body, AnswerIn):
            return queue.answer(id, body.answer, who=who, note=body.note, confirmed=body.confirmed)
        decide = queue.approve if body.status == "approved" else queue.reject
        return decide(id, who=who, note=body.note)

    decision = await asyncio.to_thread(apply_decision)
    service_of(request).metrics.count_review(body.status)
    return respond(decision)


@router.post("/{id}/draft", summary="See an answer's fact first", responses=response_schema(Fact))
async def draft(id: Id, body: DraftIn, gate: ReviewGate) -> Response:
    """The fact that an answer would become, as it would be stored. Nothing is decided yet."""
    return respond(await asyncio.to_thread(gate.reviews.draft, id, body.answer))


# The same under the other name of the collection of reviews.
hitl_sessions = APIRouter(prefix=f"/v1/{REVIEWS}", route_class=StrictRoute, include_in_schema=False)
hitl_sessions.add_api_route("", reviews, methods=["GET"])
hitl_sessions.add_api_route("/{id}", review, methods=["GET"])
hitl_sessions.add_api_route("/{id}", decide_review, methods=["POST"])
