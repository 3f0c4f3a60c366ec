"""Knowledge: what people and agents told the store beside documents: edges, facts, and questions that wait for a
person.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from millgate.types.chunks import Document


@dataclass(frozen=True, slots=True)
class Edge:
    """A piece of knowledge: subject, predicate, object, how strong, and who says so."""

    source: str
    predicate: str
    target: str
    weight: float = 1.0
    provenance: str = ""


@dataclass(frozen=True, slots=True)
class TrustChange:
    """One step of a fact's trust: from what to what, when, and why."""

    when: float
    old: float
    new: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth remembering, with the trust it has earned and how it came to it (oldest first).

    `wordings` are what facts said that were merged into this one.
    """

    id: str
    content: str
    category: str = "general"
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    trust: float = 0.5
    helpful: int = 0
    unhelpful: int = 0
    recalled: int = 0
    created: float = 0.0
    updated: float = 0.0
    history: tuple[TrustChange, ...] = ()
    wordings: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What makes two facts the same; a tenant has one fact of a key."""
        return fact_key(self.content)


def node_key(name: str) -> str:
    """The form in which names of nodes are compared: without case."""
    return name.lower()


_STOPS = ".! 。！．｡।۔"  # what closes a sentence in Latin, East Asian, Indic and Arabic scripts


def fact_key(content: str) -> str:
    """The content in lower case, with single spaces and without a closing stop."""
    return " ".join(content.lower().split()).rstrip(_STOPS)


@dataclass(frozen=True, slots=True)
class FactChange:
    """One line of the fact feed: a fact saved or amended, or (fact None) an id forgotten."""

    seq: int
    id: str
    fact: Fact | None = None


ReviewStatus = Literal["pending", "answered", "approved", "rejected", "expired"]


@dataclass(frozen=True, slots=True)
class Review:
    """A question that waits for a person, with what the pipeline found and how it graded it."""

    id: str
    query: str
    collection: str = "main"
    status: ReviewStatus = "pending"
    grades: Mapping[str, float] = field(default_factory=dict, hash=False)
    reason: str = ""
    answer: str = ""
    who: str = ""
    note: str = ""
    created: float = 0.0
    decided: float = 0.0
    expires: float = 0.0


Record = tuple[str, str, "Document | Edge | Fact | Review"]
"""Something that people wrote: whose it is, its kind ("document", "edge", "fact", "review"), and itself."""
