"""/v1/reviews: the questions that wait for a person, and the decisions on them."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request

from millgate.knowledge.review import Decision
from millgate.published.entropy_gating import REVIEWS
from millgate.service.routes.api import (  # fmt: skip
    Body,
    Id,
    Label,
    Note,
    Page,
    Reviewer,
    ReviewGate,
    Route,
    Text,
)
from millgate.service.state import service_of
from millgate.types import Fact, Review, ReviewStatus

router = APIRouter(prefix="/v1", route_class=Route)


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


@dataclass
class ReviewsOut:
    """Reviews, oldest first."""

    reviews: list[Review]


@router.get(f"/{REVIEWS}", include_in_schema=False)  # the same under its published name
@router.get("/reviews")
def list_reviews(
    gate: ReviewGate,
    status: Annotated[
        ReviewStatus | None, Query(description="Only reviews with this status.")
    ] = None,
    limit: Page = 100,
) -> ReviewsOut:
    """The reviews, oldest first."""
    return ReviewsOut(gate.reviews.reviews(status)[:limit])


@router.get(f"/{REVIEWS}/{{id}}", include_in_schema=False)
@router.get("/reviews/{id}")
def read_review(id: Id, gate: ReviewGate) -> Review:
    """A question, what was found for it, and how it was decided."""
    return gate.reviews.review(id)


@router.post(f"/{REVIEWS}/{{id}}", include_in_schema=False)
@router.post("/reviews/{id}")
def decide_review(
    id: Id, body: DecisionIn, request: Request, gate: ReviewGate, caller: Reviewer
) -> Decision:
    """Answer, approve or reject a question; the first decision stands."""
    queue, who = gate.reviews, body.who or caller.key
    if isinstance(body, AnswerIn):
        found = queue.answer(id, body.answer, who=who, note=body.note, confirmed=body.confirmed)
    else:
        decide = queue.approve if body.status == "approved" else queue.reject
        found = decide(id, who=who, note=body.note)
    service_of(request).metrics.count_review(body.status)
    return found


@router.post("/reviews/{id}/draft")
def draft_answer(id: Id, body: DraftIn, gate: ReviewGate) -> Fact:
    """The fact that an answer would become, as it would be stored. Nothing is decided yet."""
    return gate.reviews.draft(id, body.answer)
