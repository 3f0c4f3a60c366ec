"""Resources: what the stages of every request work with, and the knobs of each.

An engine has one of each; a request has neither of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.graph.knowledge import GraphPolicy
from headgate.memory.memory import Memory
from headgate.memory.review import AskRate, Defer, ReviewPolicy
from headgate.pipeline.sizes import CollectionTokens
from headgate.policy import Limits
from headgate.protocols import Clock, Grader, Postings, Store, TokenCounter, WebSearch
from headgate.stages.compose import ComposePolicy
from headgate.stages.decide import DecidePolicy
from headgate.stages.expand import ExpandPolicy
from headgate.stages.gate import GatePolicy
from headgate.stages.grade import GradePolicy
from headgate.stages.penalize import PenalizePolicy
from headgate.stages.propagate import PropagatePolicy
from headgate.stages.retrieve import RetrievePolicy
from headgate.text.cache import WindowCache

if TYPE_CHECKING:
    import numpy.typing as npt

Views = Callable[[str, str, str], Postings]
"""From a tenant, a collection and a query to what ranking reads."""
Vectors = Callable[[str], "npt.ArrayLike | None"]
"""From a query to its vector; None without an embedder."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The knobs of every stage."""

    limits: Limits
    decide: DecidePolicy
    retrieve: RetrievePolicy
    propagate: PropagatePolicy
    graph: GraphPolicy
    penalize: PenalizePolicy
    expand: ExpandPolicy
    gate: GatePolicy
    grade: GradePolicy
    review: ReviewPolicy
    compose: ComposePolicy


@dataclass(frozen=True, slots=True)
class Resources:
    """What the stages work with, the same for every request."""

    store: Store
    views: Views
    vectors: Vectors
    count: TokenCounter
    memory: Memory | None
    grader: Grader | None
    search: WebSearch | None
    clock: Clock
    tick: Callable[[], float]
    name: Callable[[], str]
    cache: WindowCache
    sizes: CollectionTokens
    defer: Defer | None = None
    ask_rate: AskRate = field(default_factory=AskRate)
