"""Reviews: the questions that wait for a person; each is answered, approved or rejected on its page."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import InputError
from millgate.service.dashboard.render import link, redirect, render
from millgate.service.dashboard.route import PageRoute, read_form
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import Id, Reviewer, ReviewGate
from millgate.service.state import service_of
from millgate.types import ReviewStatus

router = APIRouter(prefix=f"{DASHBOARD}/reviews", route_class=PageRoute, include_in_schema=False)


ROWS = 50
STATUSES = ("pending", "answered", "approved", "rejected", "expired")


@router.get("")
async def show_reviews(
    request: Request,
    gate: ReviewGate,
    status: ReviewStatus = "pending",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """The reviews with a status, oldest first."""
    found = await gate.reviews.areviews(status)
    last = ROWS * page
    return render(
        request, "reviews.html",
        reviews=found[last - ROWS : last], total=len(found), chosen=status, statuses=STATUSES, page=page, more=len(found) > last,
    )  # fmt: skip


@router.get("/{id}")
async def show_review(request: Request, id: Id, gate: ReviewGate) -> Response:
    """One question, what was found for it, and the decision."""
    review = await gate.reviews.areview(id)
    ids = list(review.grades)
    chunks = await asyncio.to_thread(gate.store.chunks, gate.tenant, review.collection, ids)
    texts = {chunk.id: chunk for chunk in chunks}
    return render(request, "review.html", review=review, chunks=texts)


@router.post("/{id}")
async def decide(request: Request, id: Id, gate: ReviewGate, caller: Reviewer) -> Response:
    """Answer, approve or reject; the first decision stands."""
    form = await read_form(request)
    queue = gate.reviews
    status, note = form.get("status", ""), form.get("note", "")
    match status:
        case "answered":
            await queue.aanswer(id, form.get("answer", ""), who=caller.key, note=note)
        case "approved":
            await queue.aapprove(id, who=caller.key, note=note)
        case "rejected":
            await queue.areject(id, who=caller.key, note=note)
        case _:
            raise InputError("status: answered, approved or rejected", hint="use the buttons")
    service_of(request).metrics.count_review(status)
    return redirect(link(f"/reviews/{id}"))
