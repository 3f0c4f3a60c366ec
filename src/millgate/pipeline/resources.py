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
from millgate.pipeline.stages.compose import ComposePolicy
from millgate.pipeline.stages.decide import DecidePolicy
from millgate.pipeline.stages.expand import ExpandPolicy
from millgate.pipeline.stages.gate import GatePolicy
from millgate.pipeline.stages.grade import GradePolicy
from millgate.pipeline.stages.penalize import PenalizePolicy
from millgate.pipeline.stages.propagate import PropagatePolicy
from millgate.pipeline.stages.retrieve import RetrievePolicy
from millgate.protocols import Clock, Grader, Snapshot, Store, TokenCounter, WebSearch
from millgate.published.context_strategy import CHARS_PER_TOKEN
from millgate.text.cache import Cache
from millgate.text.fence import fence_cost, piece
from millgate.types import Request, Size
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


class CollectionTokens:
    """How many tokens a collection takes if it is loaded whole, counted as a context shows it. Threads may share it.

    So whether a collection fits is known exactly. A count is remembered until the collection changes; without that
    every request that may load a collection whole would read its chunks from the store.
    """

    def __init__(self, store: Store, count: TokenCounter, notice: str) -> None:
        self._store, self._count, self._notice = store, count, notice
        self._known = Cache[tuple[str, str], tuple[int, int]](450_000, lambda *_: 200)

    def tokens(self, tenant: str, collection: str, size: Size, *, most: int) -> int:
        """The tokens of a collection of that size; an estimate if it surely takes more than `most`."""
        # prose has 4 to 6 characters a token, and no text that was measured 16
        if size.chars > 16 * most:
            return max(most + 1, size.chars // CHARS_PER_TOKEN)
        head = self._store.head(tenant, collection)
        known = self._known.get((tenant, collection))
        if known is None or known[0] != head:
            shown = (
                piece(number, chunk.title, chunk.text.strip())
                for number, chunk in enumerate(self._store.scan(tenant, collection), 1)
            )
            tokens = sum(self._count(text + "\n") for text in shown)
            known = head, fence_cost(self._count, self._notice) + tokens
            self._known.put((tenant, collection), known)
        return known[1]


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
