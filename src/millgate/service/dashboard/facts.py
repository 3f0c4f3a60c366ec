"""Facts: what is remembered, how far it is trusted and why; feedback, and forgetting after a question."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.service.dashboard.plots import Plot, Series, draw_steps
from millgate.service.dashboard.render import link, redirect, render
from millgate.service.dashboard.route import PageRoute, read_form
from millgate.service.edge.auth import require_scope
from millgate.service.edge.paths import DASHBOARD
from millgate.service.observe.request_state import Caller
from millgate.service.routes.parse import Id
from millgate.service.state import service_of
from millgate.types import Fact

router = APIRouter(
    prefix=f"{DASHBOARD}/store/facts", route_class=PageRoute, include_in_schema=False
)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Writer = Annotated[Caller, Depends(require_scope("write"))]

ROWS = 50  # facts on one page
OPINIONS = {"helpful": True, "unhelpful": False}


@router.get("")
async def show_facts(
    request: Request,
    caller: Reader,
    q: Annotated[str, Query(max_length=10_000)] = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """The facts, most trusted first; with a search, best first."""
    gate = service_of(request).gate_for(caller)
    found = await asyncio.to_thread(_read, gate, q)
    last = ROWS * page
    return render(
        request, "facts.html",
        facts=found[last - ROWS : last], total=len(found), q=q, page=page, more=len(found) > last,
        least=gate.settings.facts.min_trust,
    )  # fmt: skip


@router.get("/{id}")
async def show_fact(request: Request, id: Id, caller: Reader) -> Response:
    """One fact, and its trust over time."""
    gate = service_of(request).gate_for(caller)
    fact, now = await gate.facts.aget(id), gate.facts.now()
    return render(
        request, "fact.html",
        fact=fact, drawn=draw_trust(fact, now), along=(fact.created or now, now), least=gate.settings.facts.min_trust,
    )  # fmt: skip


@router.post("/{id}/feedback")
async def give_feedback(request: Request, id: Id, caller: Writer) -> Response:
    """Say that a fact helped, or that it did not."""
    form = await read_form(request)
    opinion = OPINIONS.get(form.get("opinion", ""))
    if opinion is None:
        raise InputError("opinion: helpful or unhelpful", hint="use the buttons of the page")
    gate = service_of(request).gate_for(caller)
    await gate.afeedback(id, helpful=opinion, note=form.get("note", ""), scopes=caller.scopes)
    return redirect(_address(id))


@router.get("/{id}/forget")
async def ask_forget(request: Request, id: Id, caller: Writer) -> Response:
    """Ask whether a fact shall be forgotten."""
    fact = await service_of(request).gate_for(caller).facts.aget(id)
    return render(request, "forget.html", fact=fact)


@router.post("/{id}/forget")
async def forget(request: Request, id: Id, caller: Writer) -> Response:
    """Forget a fact."""
    await read_form(request)
    await service_of(request).gate_for(caller).facts.aforget(id)
    return redirect(link("/store/facts"))


def draw_trust(fact: Fact, now: float) -> Plot:
    """The trust of a fact from when it was made until now, as steps."""
    first = fact.history[0].old if fact.history else fact.trust
    start = min([fact.created or now, *(change.when for change in fact.history)])
    points = [(start, first), *((c.when, c.new) for c in fact.history), (now, fact.trust)]
    return draw_steps(Series("trust", "new"), points, top=1.0)


def _read(gate: Millgate, query: str) -> Sequence[Fact]:
    if not query.strip():
        return gate.facts.all()
    # not `recall`: a person who looks must not count as a use
    return [hit.fact for hit in gate.facts.search(query, limit=ROWS, min_trust=0.0)]


def _address(id: str) -> str:
    return link(f"/store/facts/{id}")
