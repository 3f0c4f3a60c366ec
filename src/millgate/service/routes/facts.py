"""/v1/facts: remember, recall, change, give feedback, forget; and the maintenance of all facts."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from millgate.errors import ScopeError
from millgate.gateway import Millgate
from millgate.knowledge.facts import AddedFact, FactHit, Feedback
from millgate.knowledge.maintenance import Merge, decay, merge, propose_merges
from millgate.service.observe.request_state import Caller
from millgate.service.routes.callers import ReadGate, WriteGate, Writer
from millgate.service.routes.parse import Body, Id, Label, Note, Page, StrictRoute, Text
from millgate.service.routes.responses import respond, response_schema
from millgate.types import Fact
from millgate.types.lengths import FACT_CHARS, MOST_LABELS

router = APIRouter(prefix="/v1/facts", tags=["facts"], route_class=StrictRoute)

Apply = Annotated[bool, Query(description="Whether to merge; else it is only proposed.")]
Trust = Annotated[float, Field(ge=0, le=1)]


class FactIn(Body):
    """Something worth remembering."""

    content: Text = Field(examples=["The build runs on Python 3.12."])
    """The fact, in a sentence; one that is known already comes back as it is."""
    category: Label = "general"
    """What it is filed under."""
    tags: list[Label] = Field(default_factory=list, max_length=MOST_LABELS)
    """More words to find it by."""
    trust: Trust | None = None
    """How far it is trusted at first; null for the usual."""


class FactChangesIn(Body):
    """What changes in a fact; what is left out or null stays."""

    content: Text | None = None
    """What it says from now on."""
    category: Label | None = None
    """What it is filed under."""
    tags: list[Label] | None = Field(None, max_length=MOST_LABELS)
    """Its tags, all of them."""
    trust: Trust | None = None
    """How far it is trusted."""


class DecayIn(Body):
    """How fast trust falls with age."""

    half_life_days: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Days since its last update in which the trust of a fact halves."""


class FeedbackIn(Body):
    """Whether a fact helped."""

    helpful: bool
    note: Note = ""
    """Why."""


class FactsOut(BaseModel):
    """Facts: with a query the best first, else the most trusted."""

    facts: list[FactHit]


class DecayOut(BaseModel):
    """The facts whose trust fell, from what to what."""

    changed: list[Feedback]


class MergeOut(BaseModel):
    """Facts that stay, and other wordings that go into each; whether that was done or is only proposed."""

    merges: list[Merge]
    applied: bool


class ForgottenOut(BaseModel):
    """The id of the forgotten fact."""

    forgotten: str


@router.post("", summary="Remember a fact", responses=response_schema(AddedFact))
async def remember(body: FactIn, gate: WriteGate, caller: Writer) -> Response:
    """Remember a fact. A known one is returned as it is."""
    _check_trust(body.trust, gate, caller)
    added = await asyncio.to_thread(
        gate.remember,
        body.content,
        category=body.category,
        tags=body.tags,
        trust=body.trust,
    )
    return respond(added)


@router.get("", summary="Recall facts", responses=response_schema(FactsOut))
async def recall(
    gate: ReadGate,
    query: Annotated[
        str | None, Query(max_length=FACT_CHARS, description="What they are for.")
    ] = None,
    limit: Page = 20,
    min_trust: Annotated[
        Trust | None,
        Query(description="Least trust; facts.min_trust if it is not given, 0 for all."),
    ] = None,
) -> Response:
    """The facts that fit a query, best first; without one, all of them. Those of too little trust are hidden."""
    if min_trust is None:
        min_trust = gate.settings.facts.min_trust
    if query is not None:
        hits = await asyncio.to_thread(gate.recall, query, limit=limit, min_trust=min_trust)
        return respond({"facts": hits})
    facts = await asyncio.to_thread(gate.facts.all, min_trust=min_trust)
    return respond({"facts": [FactHit(fact, 1.0, fact.trust) for fact in facts[:limit]]})


@router.get("/{id}", summary="Read a fact", responses=response_schema(Fact))
async def fact(id: Id, gate: ReadGate) -> Response:
    """A fact with its history."""
    return respond(await asyncio.to_thread(gate.facts.get, id))


@router.patch("/{id}", summary="Change a fact", responses=response_schema(Fact))
async def update(id: Id, body: FactChangesIn, gate: WriteGate, caller: Writer) -> Response:
    """Change what a fact says, its category, tags or trust."""
    _check_trust(body.trust, gate, caller)
    changes = body.model_dump()
    return respond(await gate.facts.aupdate(id, **changes))


@router.post("/decay", summary="Lower the trust of old facts", responses=response_schema(DecayOut))
async def decay_facts(body: DecayIn, gate: WriteGate) -> Response:
    """Lower the trust of every fact by its age since it was last updated, for good."""
    facts = gate.facts
    return respond({"changed": await asyncio.to_thread(decay, facts, body.half_life_days)})


@router.post("/merge", summary="Join wordings of one fact", responses=response_schema(MergeOut))
async def merge_facts(gate: WriteGate, *, apply: Apply = False) -> Response:
    """Propose which facts are wordings of one, or join them into the most trusted of them."""
    work = merge if apply else propose_merges
    found = await asyncio.to_thread(work, gate.facts)
    return respond({"merges": found, "applied": apply})


@router.delete("/{id}", summary="Forget a fact", responses=response_schema(ForgottenOut))
async def forget(id: Id, gate: WriteGate) -> Response:
    """Forget a fact."""
    await asyncio.to_thread(gate.facts.forget, id)
    return respond({"forgotten": id})


@router.post("/{id}/feedback", summary="Say whether a fact helped", responses=response_schema(Feedback))  # fmt: skip
async def feedback(id: Id, body: FeedbackIn, gate: WriteGate, caller: Writer) -> Response:
    """Say whether a fact helped; returns its trust before and after."""
    moved = await gate.afeedback(id, helpful=body.helpful, note=body.note, scopes=caller.scopes)
    return respond(moved)


def _check_trust(trust: float | None, gate: Millgate, caller: Caller) -> None:
    """Refuse trust that only a reviewer may give."""
    highest = gate.settings.review.trust
    if trust is not None and trust >= highest and "review" not in caller.scopes:
        raise ScopeError(
            f"trust of {highest:g} and above is a reviewer's to give",
            hint="use less, or a key with the scope review",
        )
