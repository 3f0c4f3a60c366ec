"""The context: the answer to a request, with its report and its trace."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headgate.notes import Fate, Note, NoteCode, Stage
from headgate.text.table import clip, table
from headgate.types.chunks import Chunk
from headgate.types.plan import Strategy
from headgate.types.trace import Trace

# Dropped candidates that `explain` lists for one reason, best first. Retrieval hands on 100, and most of them fall for
# the same reason, so a line for each would hide the others.
LISTED_PER_REASON = 10


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


@dataclass(frozen=True, slots=True)
class Context:
    """The answer: a fenced, cited block that fits the budget, and the trace of how it came to be.

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
    fallback: str = ""
    fallback_reason: str = ""
    review: str = ""
    latency_ms: float = 0.0

    @property
    def strategy(self) -> Strategy:
        """How the plan chose to load content."""
        return self.trace.plan.strategy

    @property
    def degraded(self) -> tuple[str, ...]:
        """What did not go as planned, as 'stage: reason'."""
        return self.trace.degraded

    def why(self, chunk_id: str) -> tuple[Note, ...]:
        """The notes of one chunk: each stage's fate, reason and numbers; empty when it never was found."""
        candidate = self.trace.find(chunk_id)
        return candidate.notes if candidate else ()

    def explain(self) -> str:
        """A table for a person: every candidate, kept or dropped, its citation, by which stage, with what score and
        why.

        Ids are whole, to be copied. The reason has the numbers that decided. If a stage dropped many candidates for the
        same reason, the best of them have a line each, and the others one line with their count.
        """
        cited = {chunk.id: f"[{number}]" for number, chunk in enumerate(self.chunks, 1)}
        rows = [("", "cited", "chunk", "stage", "score", "why", "text")]
        counts: Counter[tuple[Stage, NoteCode]] = Counter()
        for candidate in self.trace.candidates:
            last = candidate.notes[-1]
            if candidate.dropped:
                counts[last.stage, last.code] += 1
                if counts[last.stage, last.code] > LISTED_PER_REASON:
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
        for (stage, code), count in counts.items():
            if count > LISTED_PER_REASON:
                more = f"and {count - LISTED_PER_REASON} more"
                rows.append((Fate.DROP, "", more, stage, "", code.replace("_", " "), ""))
        head = (
            f"{self.strategy.value}: {self.trace.plan.reasoning}\n"
            f"{self.token_estimate} of {self.trace.plan.budget} tokens, "
            f"{self.report.kept} kept, {self.report.evicted} dropped"
        )
        return "\n".join((head, *self.degraded, "", table(rows)))

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
