"""Records: what people and agents told the store beside documents (edges, facts, and questions that wait for a person),
who may call with which secrets, and what was spent.
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


@dataclass(frozen=True, slots=True)
class Secret:
    """A signing key and until when it may verify (None: it is the one in use)."""

    key: bytes = field(repr=False)
    created: float = 0.0
    expires: float | None = None


Scope = Literal["read", "write", "review", "proxy", "admin"]


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as it is kept: whose it is and what it may do, with the hash of its secret, never the secret."""

    id: str
    digest: str
    tenant: str
    scopes: tuple[str, ...] = ("read",)
    """Scopes; "proxy:NAME" is the scope proxy for one upstream alone."""
    name: str = ""
    created: float = 0.0
    revoked: float | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """A size in tokens, and in millionths of a currency."""

    tokens: int = 0
    micros: int = 0


SpendScope = Literal["session", "key", "tenant"]


@dataclass(frozen=True, slots=True)
class Spend:
    """What a session, a key or a tenant (name "") has spent since it was last resumed, and in all.

    Held is what calls under way are expected to spend. A rate is a smoothed size of one call.
    """

    scope: SpendScope
    name: str = ""
    tokens: int = 0
    micros: int = 0
    calls: int = 0
    held_tokens: int = 0
    held_micros: int = 0
    held_at: float = 0.0
    total_tokens: int = 0
    total_micros: int = 0
    total_calls: int = 0
    rate_tokens: float = 0.0
    rate_micros: float = 0.0
    since: float = 0.0
    last: float = 0.0
    paused: float | None = None
