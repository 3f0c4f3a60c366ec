"""Reviews: the questions that wait for a person; each is answered, approved or rejected on its page."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import InputError
from millgate.service.dashboard.page import PageRoute, link, read_form, redirect, render
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import Id, Reviewer, ReviewGate
from millgate.service.state import service_of
from millgate.types import ReviewStatus

router = APIRouter(prefix=f"{DASHBOARD}/reviews", route_class=PageRoute)

ROWS = 50


@router.get("")
def show_reviews(
    request: Request,
    gate: ReviewGate,
    status: ReviewStatus = "pending",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """The reviews with a status, oldest first."""
    found = gate.reviews.reviews(status)
    last = ROWS * page
    return render(
        request,
        "reviews.html",
        reviews=found[last - ROWS : last],
        total=len(found),
        chosen=status,
        page=page,
        more=len(found) > last,
    )


@router.get("/{id}")
def show_review(request: Request, id: Id, gate: ReviewGate) -> Response:
    """One question, what was found for it, and the decision."""
    review = gate.reviews.review(id)
    chunks = gate.store.chunks(gate.tenant, review.collection, list(review.grades))
    return render(request, "review.html", review=review, chunks={one.id: one for one in chunks})


@router.post("/{id}")
async def decide(request: Request, id: Id, gate: ReviewGate, caller: Reviewer) -> Response:
    """Answer, approve or reject; the first decision stands."""
    form = await read_form(request)
    queue, status = gate.reviews, form.get("status", "")
    who, note = caller.key, form.get("note", "")
    match status:
        case "answered":
            await queue.aanswer(id, form.get("answer", ""), who=who, note=note)
        case "approved":
            await queue.aapprove(id, who=who, note=note)
        case "rejected":
            await queue.areject(id, who=who, note=note)
        case _:
            raise InputError("status: answered, approved or rejected", hint="use the buttons")
    service_of(request).metrics.count_review(status)
    return redirect(link(f"/reviews/{id}"))
