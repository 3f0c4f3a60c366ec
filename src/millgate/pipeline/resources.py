"""Resources: what the stages of every request work with, the policy of each stage, and the limits of a request."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from millgate.calls.parts import Rest
from millgate.calls.pool import ComputingSlots
from millgate.errors import InputError, LimitError
from millgate.knowledge.memory import Memory
from millgate.knowledge.paths import GraphPolicy
from millgate.knowledge.review import AskRate, Defer, ReviewPolicy
from millgate.pipeline.sizes import CollectionTokens
from millgate.pipeline.stages.compose import ComposePolicy
from millgate.pipeline.stages.decide import DecidePolicy
from millgate.pipeline.stages.expand import ExpandPolicy
from millgate.pipeline.stages.gate import GatePolicy
from millgate.pipeline.stages.grade import GradePolicy
from millgate.pipeline.stages.penalize import PenalizePolicy
from millgate.pipeline.stages.propagate import PropagatePolicy
from millgate.pipeline.stages.retrieve import RetrievePolicy
from millgate.protocols import Clock, Grader, Snapshot, Store, TokenCounter, WebSearch
from millgate.text.window_cache import WindowCache
from millgate.types import Request
from millgate.types.check import check_length
from millgate.types.lengths import MOST_COLLECTIONS, NAME_CHARS
from millgate.types.policy import Limits
from millgate.types.request import LENGTHS

if TYPE_CHECKING:
    import numpy.typing as npt

Views = Callable[[str, str, str], Snapshot]
"""From a tenant, a collection and a query to what ranking reads."""
Vectors = Callable[[str], "npt.ArrayLike | None"]
"""From a query to its vector; None without an embedder."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The policy of every stage."""

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
    count: TokenCounter
    sizes: CollectionTokens
    memory: Memory | None = None
    vectors: Vectors = lambda _: None
    measures: bool = True
    """Whether the store holds all of a collection, so that its size tells whether it fits whole."""
    grader: Grader | None = None
    grader_s: float | None = None
    """Seconds that the grader may take; None if it has limits of its own."""
    grader_rest: Rest = field(default_factory=Rest)
    search: WebSearch | None = None
    search_s: float | None = None
    search_rest: Rest = field(default_factory=Rest)
    clock: Clock = time.time
    tick: Callable[[], float] = time.perf_counter
    name: Callable[[], str] = lambda: uuid4().hex
    cache: WindowCache = field(default_factory=lambda: WindowCache(clock=time.monotonic))
    computing: ComputingSlots = field(default_factory=ComputingSlots)
    defer: Defer | None = None
    ask_rate: AskRate = field(default_factory=AskRate)


def check_limits(request: Request, limits: Limits) -> None:
    """Refuse what cannot be used, naming the limit it broke."""
    if not request.query.strip():
        raise InputError("the query is empty", hint="say what the context is for")
    for name, most in LENGTHS.items():
        check_length(name, getattr(request, name) or "", most)
    for name in request.collections:
        if not name:
            raise InputError("the name of a collection is empty", hint="leave it out, or name one")
        check_length("collection", name, NAME_CHARS)
    if len(request.collections) > MOST_COLLECTIONS:
        raise LimitError(
            f"{len(request.collections)} collections are named; at most {MOST_COLLECTIONS} are asked at once",
            hint="ask in several requests",
        )
    measured = {
        "query_chars": len(request.query),
        "window_chars": sum(map(len, request.window.texts)),
        "window_blocks": len(request.window.texts),
        "budget": request.budget,
        "k": request.k or 0,
    }
    for name, value in measured.items():
        most = getattr(limits, name)
        if not 0 <= value <= most:
            raise LimitError(
                f"{name} is {value:,}; it must be 0 to {most:,}",
                hint=f"the limit is set by limits.{name}",
            )
