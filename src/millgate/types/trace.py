"""The trace: what happened to one request, stage by stage and candidate by candidate; and the context, its answer."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, Literal

from millgate.text.table import clip, count_of, table
from millgate.types.chunks import Candidate, Chunk
from millgate.types.lengths import MOST_REASONS, NAME_CHARS, SESSION_CHARS, SUMMARY_CHARS
from millgate.types.notes import Fate, Note, NoteCode, Stage
from millgate.types.request import Plan, Request, Strategy

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
        fresh = call.number("fresh")
        return cls(
            str(call.facts.get("model", ""))[:NAME_CHARS],
            str(call.facts.get("key", ""))[:NAME_CHARS],
            call.number("cost"),
            int(call.number("read") or 0),
            int(call.number("written") or 0),
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


# Rows of `explain`, those of what was kept first: a screen of them. Retrieval hands on 100 candidates.
LISTED = 15

# The chance of evidence from which something is added to a conversation that did not ask for it. Over 17 labeled sets
# 2 of 100 questions that can be answered stay below, and a third of those of other sets that were not refused.
LEAST_UNASKED = 0.1


@dataclass(frozen=True, slots=True)
class Report:
    """What the gate kept and evicted, with a reason for each evicted id."""

    total_candidates: int = 0
    kept: int = 0
    evicted: int = 0
    avg_entropy_kept: float = 0.0
    avg_entropy_evicted: float = 0.0
    evicted_ids: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class Context:
    """The answer: a fenced, cited block that fits the budget, and the trace of how it came to be.

    `str(context)` is the block, so a context can stand in an f-string. An empty one is false, and `fallback_reason`
    says why it is. Of several collections that were asked, it names those that hold nothing.
    A notebook shows the block and a table of every candidate.
    `texts` has what the block shows of each of the `chunks`: all of it, or its best strips if it did not fit.
    """

    text: str
    chunks: tuple[Chunk, ...]
    token_estimate: int
    trace: Trace
    report: Report
    texts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    graph_context: tuple[str, ...] = ()
    admissibility_token: str | None = None
    verdict: Literal["", "correct", "ambiguous", "incorrect"] = ""
    """What grading came to; empty if nothing was graded, as when the window shows all that is relevant."""
    confidences: Mapping[str, float] = field(default_factory=dict, hash=False)
    """For each chunk shown that was graded, by id, the chance that it is evidence."""
    held_weight: float | None = None
    """How much of what the message names the texts found hold, in weights of a word that one text has; None if
    words did not decide."""
    fallback: str = ""
    fallback_reason: str = ""
    review: str = ""
    latency_ms: float = 0.0

    @property
    def plan(self) -> Plan:
        """What was decided before anything was looked up."""
        assert self.trace.plan is not None
        return self.trace.plan

    @property
    def best_confidence(self) -> float:
        """The highest confidence of what is shown; 1 if nothing was graded."""
        return max(self.confidences.values(), default=1.0)

    @property
    def is_worth_adding(self) -> bool:
        """Whether it may be added to a conversation unasked: it is likely to be evidence for what a person asks."""
        return bool(self.text) and not self.reason_not_to_add

    @property
    def reason_not_to_add(self) -> str:
        """Why it should not be added to a conversation unasked; "" if it may be."""
        if not self.text:
            return self.fallback_reason or "nothing was found"
        if self.best_confidence < LEAST_UNASKED:
            return f"the best that was found is evidence with a chance of {self.best_confidence:.2f}, too little to add it unasked"  # fmt: skip
        from millgate.text.wanted import LEAST_HELD, read_wanted  # noqa: PLC0415  (stemmers; importing a noun is light)

        wanted = read_wanted(self.trace.request.query)
        least = LEAST_HELD[wanted]
        if self.held_weight is not None and self.held_weight < least:
            return (
                f"what was found holds {self.held_weight:.2f} of what the message names, and one that is read as"
                f" {wanted} needs {least:.1f}"
            )
        return ""

    @property
    def strategy(self) -> Strategy:
        """How the plan chose to load content."""
        return self.plan.strategy

    @property
    def degraded(self) -> tuple[str, ...]:
        """What did not go as planned, as 'stage: reason'."""
        return self.trace.degraded

    def why(self, chunk_id: str) -> tuple[Note, ...]:
        """The notes of one chunk: each stage's fate, reason and numbers. `gate.why` adds what would have let it in.

        For an id that no candidate has there is one note, which says so. `gate.why` knows whether the store has it.
        """
        return self.trace.notes_on(chunk_id)

    def explain(self) -> str:
        """A table for a person: every candidate, kept or dropped, its citation, by which stage, with what score and
        why.

        Ids are whole, to be copied. The reason has the numbers that decided. Everything that was kept and the best of
        what was dropped have a line each, fifteen in all, and the others one line for each reason with their count.
        """
        return "\n".join((self._summary(), *self.degraded, "", table(self._fates())))

    def as_dict(self) -> dict[str, Any]:
        """The answer as a few plain values, ready for JSON: what is shown, where it is from, and how much was left out.

        The trace is only named by its id; `millgate why` and `gate.trace` read it.
        """
        shown = zip(self.chunks, self.texts or [chunk.text for chunk in self.chunks], strict=True)
        return {
            "text": self.text,
            "chunks": [
                {"id": chunk.id, "title": chunk.title, "document": chunk.document, "text": text}
                for chunk, text in shown
            ],
            "token_estimate": self.token_estimate,
            "sources": list(self.sources),
            "verdict": self.verdict,
            "fallback_reason": self.fallback_reason,
            "degraded": list(self.degraded),
            "kept": self.report.kept,
            "evicted": self.report.evicted,
            "trace": self.trace.id,
        }

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)

    def __repr__(self) -> str:
        if not self:
            return f"<Context: empty, {self.fallback_reason or 'nothing was found'}, trace {self.trace.id[:8]}>"
        shown = count_of(len(self.chunks), "chunk")
        size = f"{self.token_estimate:,} of {self.plan.budget:,} tokens"
        reason = f", {self.fallback_reason}" if self.fallback_reason else ""
        return f"<Context: {shown}, {size}{reason}, trace {self.trace.id[:8]}>"

    def _repr_html_(self) -> str:
        """The block, and the table of `explain`, for a notebook."""
        return f"<pre>{escape(self.text)}</pre><pre>{escape(self.explain())}</pre>"

    def _summary(self) -> str:
        return (
            f"{self.strategy.value}: {self.plan.reasoning}\n"
            f"{self.token_estimate:,} of {self.plan.budget:,} tokens, "
            f"{self.report.kept} kept, {self.report.evicted} dropped"
            f"{f'; {self.fallback_reason}' if self.fallback_reason else ''}"
        )

    def _fates(self) -> list[tuple[str, ...]]:
        """A head and a row for each candidate, or a row for many that fell for the same reason."""
        cited = {chunk.id: f"[{number}]" for number, chunk in enumerate(self.chunks, 1)}
        rows: list[tuple[str, ...]] = [("", "cited", "chunk", "stage", "score", "why", "text")]
        rest: Counter[tuple[Stage, NoteCode]] = Counter()
        ordered = sorted(self.trace.candidates, key=lambda candidate: candidate.dropped)
        for number, candidate in enumerate(ordered):
            last = candidate.notes[-1]
            if candidate.dropped and number >= LISTED:
                rest[last.stage, last.code] += 1
                continue
            rows.append((
                Fate.DROP if candidate.dropped else Fate.KEEP,
                cited.get(candidate.chunk.id, ""),
                candidate.chunk.id,
                last.stage,
                f"{last.score:.3f}",
                last.reason_with_numbers,
                clip(candidate.chunk.text, 60),
            ))  # fmt: skip
        for (stage, code), count in rest.items():
            more = f"and {count} more"
            rows.append((Fate.DROP, "", more, stage, "", code.replace("_", " "), ""))
        return rows

    def as_messages(
        self, form: Literal["user", "system", "tool"] = "user", *, call_id: str = ""
    ) -> list[dict[str, str]]:
        """The block as chat messages, to stand after the stable prefix of a prompt; none for an empty context.

        "tool" gives the result of the tool call `call_id`, also when there is nothing to show.
        """
        if form == "tool":
            content = self.text or "No relevant context was found."
            return [{"role": "tool", "tool_call_id": call_id, "content": content}]
        return [{"role": form, "content": self.text}] if self.text else []
