"""The context: the answer to a request, with its report and its trace."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from millgate.text.table import clip, count_of, table
from millgate.types.chunks import Chunk
from millgate.types.notes import Fate, Note, NoteCode, Stage
from millgate.types.plan import Plan, Strategy
from millgate.types.trace import Trace

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
        head, *rows = self._fates()
        marks = [_html_row(head, "th"), *(_html_row(row, "td") for row in rows)]
        notes = "<br>".join(escape(line) for line in (self._summary(), *self.degraded))
        return f"<pre>{escape(self.text)}</pre><p>{notes}</p><table>{''.join(marks)}</table>"

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


def _html_row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
