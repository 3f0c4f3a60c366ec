"""The trace: what happened to one request, stage by stage and candidate by candidate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headgate.notes import Stage
from headgate.types.candidates import Candidate
from headgate.types.plan import Plan
from headgate.types.request import Request

SAVED_TOKENS: Final = "saved_tokens"
"""The fact of a step that says how many tokens it saved."""

_SUMMARY_CHARS = (
    500  # of a query in the summary of its trace: lists show a line, so this bounds the row
)


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


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened to one request: plan, steps, and every candidate with its notes."""

    id: str
    request: Request
    plan: Plan
    steps: tuple[Step, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    created: float = 0.0

    def find(self, chunk_id: str) -> Candidate | None:
        """The candidate with that chunk id, or None when it never was one."""
        return next((c for c in self.candidates if c.chunk.id == chunk_id), None)

    @property
    def degraded(self) -> tuple[str, ...]:
        """What did not go as planned, as 'stage: reason'."""
        return tuple(f"{s.stage}: {s.degraded}" for s in self.steps if s.degraded)


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A request in one row; `query` is cut after 500 characters, `seconds` is the time in all stages.

    `outcome` is what became of the answer of a model call under the guard; empty if a context was asked for.
    `saved` is the tokens that were not sent or not generated.
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
    saved: int = 0

    @classmethod
    def of(cls, trace: Trace) -> "TraceSummary":
        """The summary of a trace."""
        plan = trace.plan
        return cls(
            id=trace.id,
            created=trace.created,
            query=trace.request.query[:_SUMMARY_CHARS],
            session=trace.request.session,
            collection=", ".join(trace.request.collections),
            strategy=plan.strategy.value,
            tier=plan.tier.value,
            pressure=plan.pressure,
            skip=plan.skip,
            budget=plan.budget,
            candidates=len(trace.candidates),
            kept=sum(not candidate.dropped for candidate in trace.candidates),
            seconds=sum(step.seconds for step in trace.steps),
            degraded=trace.degraded,
            outcome=next((str(s.facts.get("guard", "off")) for s in trace.steps if s.stage is Stage.MODEL), ""),
            saved=sum(int(n) for s in trace.steps if isinstance(n := s.facts.get(SAVED_TOKENS, 0), int | float)),
        )  # fmt: skip
