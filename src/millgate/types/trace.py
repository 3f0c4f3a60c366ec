"""The trace: what happened to one request, stage by stage and candidate by candidate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from millgate.text.table import clip
from millgate.types.candidates import Candidate
from millgate.types.lengths import MOST_REASONS, NAME_CHARS, SESSION_CHARS, SUMMARY_CHARS
from millgate.types.notes import Fate, Note, NoteCode, Stage
from millgate.types.plan import Plan
from millgate.types.request import Request

SAVED_TOKENS: Final = "saved_tokens"
"""The fact of a step that says how many tokens were not sent because the window shows them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of one request: how long it took, how many it received, kept and dropped, and what went wrong.

    `degraded` says what went wrong; `bug` that it was nothing the outside could have caused. `text` is what the model
    wrote, if the step speaks of that; it is kept only if texts are kept.
    """

    stage: Stage
    seconds: float
    received: int = 0
    kept: int = 0
    dropped: int = 0
    added: int = 0
    degraded: str = ""
    bug: bool = False
    facts: Mapping[str, float | str] = field(default_factory=dict, hash=False)
    text: str = ""

    def number(self, name: str) -> float | None:
        """A fact that is a number; None if there is none of that name."""
        value = self.facts.get(name)
        return value if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """What happened to one request: plan, steps, and every candidate with its notes. A model call has no plan."""

    id: str
    request: Request
    plan: Plan | None = None
    steps: tuple[Step, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    created: float = 0.0

    def step(self, stage: Stage) -> Step | None:
        """The first step of a stage; None if it had none."""
        return next((step for step in self.steps if step.stage is stage), None)

    def find(self, chunk_id: str) -> Candidate | None:
        """The candidate with that chunk id, or None when it never was one."""
        return next((c for c in self.candidates if c.chunk.id == chunk_id), None)

    def notes_on(self, chunk_id: str) -> tuple[Note, ...]:
        """The notes on a chunk; for one that never was a candidate, a note that says so."""
        candidate = self.find(chunk_id)
        if candidate and candidate.notes:
            return candidate.notes
        if self.plan is None or self.plan.skip:
            empty = "the window is full" if self.plan else "a model call looks nothing up"
            reason = (self.plan and self.plan.reasoning) or empty
            return (Note(Stage.DECIDE, Fate.DROP, NoteCode.NOT_SEARCHED, 0.0, subject=reason),)
        return (Note(Stage.RETRIEVE, Fate.DROP, NoteCode.NEVER_FOUND, 0.0),)

    @property
    def budget(self) -> int:
        """The tokens that the context might have; 0 of a model call."""
        return self.plan.budget if self.plan else 0

    @property
    def degraded(self) -> tuple[str, ...]:
        """What did not go as planned, as 'stage: reason'."""
        return tuple(f"{s.stage}: {s.degraded}" for s in self.steps if s.degraded)

    def __repr__(self) -> str:
        query = clip(self.request.query, 60)
        return f"<Trace {self.id[:8]}: {query!r}, {len(self.candidates)} candidates>"


ENDED: Final = "ended"
"""The outcome of a call that Millgate answered itself, since the agent went in circles."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a model call took and cost, and what of it was paid because the provider's cache broke.

    `read`, `written` and `fresh` are its input by the provider's count, with all its tries, as the cost has them. Costs
    are None if the model has no price.
    """

    model: str = ""
    key: str = ""
    cost: float | None = None
    read: int = 0
    written: int = 0
    fresh: int = 0
    output: int = 0
    lost: int = 0
    lost_cost: float | None = None
    blame: str = ""
    reason: str = ""
    calls: int = 1
    """How often an upstream was asked: the guard asks again after each cut."""

    @classmethod
    def of(cls, trace: Trace) -> "CallCost | None":
        """What the call of a trace cost; None if it is of no call, or of a turn that Millgate ended itself."""
        call = trace.step(Stage.MODEL)
        if call is None or call.facts.get("outcome") == ENDED:
            return None
        cache = trace.step(Stage.CACHE) or Step(Stage.CACHE, 0.0)
        # a trace of an earlier release has counts in the step of the cache alone, those of the first try
        counted = call if "fresh" in call.facts else cache
        fresh = counted.number("fresh")
        return cls(
            str(call.facts.get("model", ""))[:NAME_CHARS],
            str(call.facts.get("key", ""))[:NAME_CHARS],
            call.number("cost"),
            int(counted.number("read") or 0),
            int(counted.number("written") or 0),
            int((call.number("input_tokens") if fresh is None else fresh) or 0),
            int(call.number("output_tokens") or 0),
            int(cache.number("lost") or 0),
            cache.number("cost"),
            str(cache.facts.get("blame", "")),
            str(cache.facts.get("reason", ""))[:SUMMARY_CHARS],
            1 + int(call.number("rollbacks") or 0),
        )


@dataclass(frozen=True, slots=True)
class FoldUse:
    """What folding did with a model call, or would have done if its group is measure or holdout."""

    group: str
    saved: int = 0
    """Tokens that were folded for the first time, or would have been."""
    saved_cost: float | None = None
    repeated_calls: int = 0
    """Results that it brought of calls which were made before."""
    stops: bool = False
    """Whether folding stopped with this call."""

    @classmethod
    def of(cls, trace: Trace) -> "FoldUse | None":
        """What folding did with the call of a trace; None if nobody asked for it."""
        found = (s for s in trace.steps if s.stage is Stage.FOLD and "group" in s.facts)
        if (step := next(found, None)) is None:
            return None
        return cls(
            str(step.facts["group"]),
            int(step.number(SAVED_TOKENS) or step.number("would_save") or 0),
            step.number("saved_cost"),
            int(step.number("repeated_calls") or 0),
            bool(step.facts.get("stops")),
        )


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A request in one row; each of its texts is cut after 500 characters, `seconds` is the time in all stages.

    `outcome` is what became of a model call, and `status` what the client got, 0 if the service was not reached; empty
    and 0 if a context was asked for.
    `saved` is the tokens that were not sent because the window shows them: passages left out, and text
    that was folded. `cost` is what a model call took and cost.
    """

    id: str
    created: float
    query: str
    session: str
    collection: str
    strategy: str
    tier: str
    pressure: float
    skip: bool
    budget: int
    candidates: int
    kept: int
    seconds: float
    degraded: tuple[str, ...] = ()
    outcome: str = ""
    status: int = 0
    saved: int = 0
    cost: CallCost | None = None
    compaction: str = ""
    """What left the window in a compaction before a model call, as a sentence."""
    fold: FoldUse | None = None

    @property
    def is_model_call(self) -> bool:
        """Whether a model was called; a turn that Millgate ended for going in circles calls none."""
        return self.outcome not in ("", ENDED)

    @classmethod
    def of(cls, trace: Trace) -> "TraceSummary":
        """The summary of a trace."""
        plan, call, compacted = trace.plan, trace.step(Stage.MODEL), trace.step(Stage.COMPACTION)
        return cls(
            id=trace.id,
            created=trace.created,
            query=trace.request.query[:SUMMARY_CHARS],
            session=trace.request.session[:SESSION_CHARS],
            collection=", ".join(trace.request.collections)[:SUMMARY_CHARS],
            strategy=plan.strategy.value if plan else "",
            tier=plan.tier.value if plan else "",
            pressure=plan.pressure if plan else 0.0,
            skip=plan is not None and plan.skip,
            budget=trace.budget,
            candidates=len(trace.candidates),
            kept=sum(not candidate.dropped for candidate in trace.candidates),
            seconds=sum(step.seconds for step in trace.steps),
            degraded=tuple(reason[:SUMMARY_CHARS] for reason in trace.degraded[:MOST_REASONS]),
            outcome="" if call is None else str(call.facts.get("outcome") or call.facts.get("guard", "off")),
            status=0 if call is None else int(call.number("status") or 0),
            saved=sum(int(s.number(SAVED_TOKENS) or 0) for s in trace.steps if s.stage in (Stage.COMPOSE, Stage.FOLD)),
            cost=CallCost.of(trace),
            compaction=str(compacted.facts.get("reason", "")) if compacted else "",
            fold=FoldUse.of(trace),
        )  # fmt: skip
