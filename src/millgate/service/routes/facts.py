"""/v1/facts: remember, recall, change, give feedback, forget."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from millgate.errors import ScopeError
from millgate.gateway import Millgate
from millgate.knowledge.facts import AddedFact, FactHit, Feedback
from millgate.service.observe.request_state import Caller
from millgate.service.routes.api import (  # fmt: skip
    Body,
    Id,
    Label,
    Note,
    Page,
    ReadGate,
    Route,
    Text,
    WriteGate,
    Writer,
)
from millgate.types import Fact
from millgate.types.lengths import FACT_CHARS, MOST_LABELS

router = APIRouter(prefix="/v1/facts", route_class=Route)

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


class FeedbackIn(Body):
    """Whether a fact helped."""

    helpful: bool
    note: Note = ""
    """Why."""


@dataclass
class FactsOut:
    """Facts: with a query the best first, else the most trusted."""

    facts: list[FactHit]


@dataclass
class ForgottenOut:
    """The id of the forgotten fact."""

    forgotten: str


@router.post("")
def remember_fact(body: FactIn, gate: WriteGate, caller: Writer) -> AddedFact:
    """Remember a fact. A known one is returned as it is."""
    _check_trust(body.trust, gate, caller)
    return gate.remember(**body.model_dump())


@router.get("")
def recall_facts(
    gate: ReadGate,
    query: Annotated[
        str | None, Query(max_length=FACT_CHARS, description="What they are for.")
    ] = None,
    limit: Page = 20,
    min_trust: Annotated[
        Trust | None,
        Query(description="Least trust; facts.min_trust if it is not given, 0 for all."),
    ] = None,
) -> FactsOut:
    """The facts that fit a query, best first; without one, all of them. Those of too little trust are hidden."""
    if min_trust is None:
        min_trust = gate.settings.facts.min_trust
    if query is not None:
        return FactsOut(gate.recall(query, limit=limit, min_trust=min_trust))
    facts = gate.facts.all(min_trust=min_trust)[:limit]
    return FactsOut([FactHit(fact, 1.0, fact.trust) for fact in facts])


@router.get("/{id}")
def read_fact(id: Id, gate: ReadGate) -> Fact:
    """A fact with its history."""
    return gate.facts.get(id)


@router.patch("/{id}")
def change_fact(id: Id, body: FactChangesIn, gate: WriteGate, caller: Writer) -> Fact:
    """Change what a fact says, its category, tags or trust."""
    _check_trust(body.trust, gate, caller)
    return gate.facts.update(id, **body.model_dump())


@router.delete("/{id}")
def forget_fact(id: Id, gate: WriteGate) -> ForgottenOut:
    """Forget a fact."""
    gate.facts.forget(id)
    return ForgottenOut(id)


@router.post("/{id}/feedback")
def rate_fact(id: Id, body: FeedbackIn, gate: WriteGate, caller: Writer) -> Feedback:
    """Say whether a fact helped; returns its trust before and after."""
    return gate.feedback(id, helpful=body.helpful, note=body.note, scopes=caller.scopes)


def _check_trust(trust: float | None, gate: Millgate, caller: Caller) -> None:
    """Refuse trust that only a reviewer may give."""
    highest = gate.settings.review.trust
    if trust is not None and trust >= highest and "review" not in caller.scopes:
        raise ScopeError(
            f"trust of {highest:g} and above is a reviewer's to give",
            hint="use less, or a key with the scope review",
        )
