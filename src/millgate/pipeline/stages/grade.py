"""Grade: is it really relevant? (corrective retrieval)

A grader says how likely each candidate is evidence for the query: the model of relevance (ranking/model.py), or one
that the caller brings (`ask_grader`). What it says decides what to do:
  correct    use what passed
  ambiguous  use what passed, and ask the fallback too; the block says that it may not answer
  incorrect  use none of it: the fallback alone; an empty answer is a valid one
By the model an answer is incorrect if its collection is too unlikely to know (`lower`), and correct if it holds
evidence with a chance of `upper` or more. A caller's grader decides by its highest confidence.
Refusing an answerable question costs more than showing a doubtful passage, so `lower` is low (docs/window.md).
A long chunk that holds little is shown as its best strips already (gate.py).
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import zip_longest
from typing import Literal

from pydantic import model_validator

from millgate.calls.parts import await_part
from millgate.errors import ConfigError, UpstreamError
from millgate.protocols import Bands, Grader, GraderWithBands
from millgate.ranking.model import Chance, Model, read_model
from millgate.types import Candidate, Chunk, Plan, Sifted, Strategy, Tier
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, Positive, PositiveCount, Tuning, Unit


class Action(StrEnum):
    """What the best confidence asks for."""

    CORRECT = "correct"
    AMBIGUOUS = "ambiguous"
    INCORRECT = "incorrect"


def bands_of(grader: Grader | None, model: Model) -> Bands:
    """Where the confidences of a grader divide: its own `bands` if it has any, the model's if there is no grader."""
    if grader is None:
        return Bands(model.upper, model.lower, 0.0)
    return grader.bands if isinstance(grader, GraderWithBands) else Bands()


async def ask_grader(
    grader: Grader, query: str, candidates: Sequence[Candidate], *, timeout_s: float | None = None
) -> list[float]:
    """One confidence in 0..1 per candidate, or an UpstreamError that says what came instead."""
    answer = await await_part("grader", timeout_s, grader.grade, query, candidates)
    marks = [float(mark) for mark in answer]
    if len(marks) != len(candidates):
        raise UpstreamError(f"the grader gave {len(marks)} grades for {len(candidates)} candidates")
    wrong = [mark for mark in marks if not (math.isfinite(mark) and 0 <= mark <= 1)]
    if wrong:
        raise UpstreamError(f"the grader gave the confidence {wrong[0]}; it must be 0..1")
    return marks


class GradePolicy(Policy):
    """When found text counts as relevant. Bands that are not set are the grader's own, from its calibration."""

    enabled: bool = True
    """Off: every candidate passes, ungraded."""
    upper: Unit | None = None
    """Chance of evidence from which the whole answer is correct; not set: the grader's own."""
    lower: Unit | None = None
    """Chance that the collection knows, below which the answer is empty; not set: as for `upper`."""
    floor: Unit = 0.03
    """The share of the expected evidence that 1,000 tokens of a chunk must hold. One that holds less is shown in part,
    in the tokens that it is worth, or left out if these are too few for two sentences. The best chunk is shown whole. 0
    fills the budget, and so does an answer of which the model is not sure."""
    weights: str = ""
    """File with the weights of the model of relevance, as `millgate eval fit --out` writes it; empty: those shipped."""
    deadline_s: Tuning[Positive] = 30.0
    """Seconds that a grader or a search of your own may take; then what was found stands as it is."""
    search_limit: Tuning[PositiveCount] = 8
    """Most results that a search outside may bring."""

    @model_validator(mode="after")
    def _bands_are_ordered(self) -> "GradePolicy":
        read_model(self.weights)  # an error if the file is not one of weights
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ConfigError("the bands of grade are out of order", hint="set lower <= upper")
        return self

    def bands(self, own: Bands, plan: Plan | None = None) -> Bands:
        """The bands in force: what is set here, else the grader's own, kept in order.

        A task on a whole collection (summarize it, translate it) is about all of it, so all of it passes, with its
        grades. In a nearly full window only what is likely to help passes.
        """
        if plan and plan.strategy is Strategy.STUFF and plan.task == "stuff_friendly":
            return Bands(0.0, 0.0, 0.0)
        upper = own.upper if self.upper is None else self.upper
        lower = min(own.lower, upper) if self.lower is None else self.lower
        is_full = plan is not None and plan.tier is Tier.SELECTIVE
        return Bands(max(upper, lower), lower, lower if is_full else min(own.floor, lower))


@dataclass(frozen=True, slots=True)
class Graded:
    """The verdict: what passed, what to do, and each chunk's confidence."""

    sifted: Sifted
    action: Action
    confidences: Mapping[str, float] = field(default_factory=dict)


def grade(
    candidates: Sequence[Candidate],
    marks: Sequence[float],
    bands: Bands,
    *,
    chances: Sequence[Chance] = (),
) -> Graded:
    """Judge the candidates by their confidences, in their order; `chances` are those of our model behind them.

    If one source of candidates knows and another does not, what the other brought is only in the way.
    """
    if not candidates:
        return Graded(Sifted(), Action.INCORRECT)
    likely = max(chance.known for chance in chances) if chances else max(marks)
    sure = chance_of_any(chances) if chances else likely
    action = Action.INCORRECT
    if likely >= bands.lower:
        action = Action.CORRECT if sure >= bands.upper else Action.AMBIGUOUS
    judged = []
    for at, (candidate, mark) in enumerate(zip(candidates, marks, strict=True)):
        numbers = {"confidence": mark}
        fate, code, subject = Fate.DROP, NoteCode.ALL_INCORRECT, ""
        is_refused = action is Action.INCORRECT
        if chances:
            is_refused |= chances[at].known < bands.lower
            own = {"known": chances[at].known, "share": chances[at].evidence_share}
        if is_refused:
            numbers["lower"] = bands.lower
        elif mark < bands.floor:
            code, numbers["floor"] = NoteCode.LOW_CONFIDENCE, bands.floor
        else:
            fate, code = Fate.KEEP, NoteCode.GRADED
            subject = Action.CORRECT if mark >= bands.upper else Action.AMBIGUOUS
        numbers |= own if chances else {}
        judged.append(candidate.with_note(Stage.GRADE, fate, code, subject=subject, **numbers))
    by_id = {c.chunk.id: mark for c, mark in zip(candidates, marks, strict=True)}
    return Graded(Sifted.split(judged), action, by_id)


def chance_of_any(found: Sequence[Chance]) -> float:
    """The chance that one candidate or more is evidence; candidates of one source know or do not know together."""
    without: dict[float, float] = {}
    for chance in found:
        without[chance.known] = without.get(chance.known, 1.0) * (1 - chance.held)
    return max((known * (1 - none) for known, none in without.items()), default=0.0)


def pass_ungraded(candidates: Sequence[Candidate]) -> Graded:
    """Let every candidate pass, because grading is off."""
    passed = [c.with_note(Stage.GRADE, Fate.KEEP, NoteCode.NOT_GRADED) for c in candidates]
    return Graded(Sifted.split(passed), Action.CORRECT)


def outside_candidates(
    chunks: Sequence[Chunk], *, best: float = 1.0, taken: Container[str] = ()
) -> Sifted:
    """Chunks from a fallback as candidates: marked untrusted, scored by their rank, best first, ids once.

    A candidate is known by its id, and a search may give any. One that is `taken` gets "web:" before it.
    """
    first: dict[str, Chunk] = {}
    for chunk in chunks:
        first.setdefault(chunk.id, chunk)
    found: dict[str, Candidate] = {}
    for id, chunk in first.items():
        free = id
        while free in taken or free in found:
            free = f"web:{free}"
        metadata = {**chunk.metadata, "untrusted": True}
        marked = Candidate(
            replace(chunk, id=free, metadata=metadata, admission=None), best / (1 + len(found))
        )
        found[free] = marked.with_note(Stage.SEARCH, Fate.ADD, NoteCode.FOUND_OUTSIDE)
    added = tuple(found.values())
    return Sifted(kept=added, added=added)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be shown; which fallback was asked and why; the review that waits."""

    kept: Sequence[Candidate] = ()
    fallback: Literal["", "search", "review"] = ""
    reason: str = ""
    review: str = ""
    action: Action | None = None
    """What grading came to; None if nothing was graded."""
    confidences: Mapping[str, float] = field(default_factory=dict)
    asks_person: bool = False


def decide_shown(
    fitting: Sequence[Candidate],
    graded: Graded | None = None,
    outside: Graded | None = None,
    *,
    nothing: str = "",
    in_danger: bool = False,
    empty: str = "",
) -> Verdict:
    """The one function that decides what may be shown, and whether a person should look.

    Correct: what was found. Ambiguous: that, with what a search brings in turns, so that neither takes the whole
    budget. Incorrect: only what a search brings; if that is off, fails or is not better, nothing, and the reason names
    the best that was refused. Without grades what is `fitting` is shown as it is: there was `nothing` to grade, for
    that reason, or grading failed. `outside` is None if no search was asked, or it failed; `empty` says so if none of
    the collections that were asked has anything.
    """
    if graded is None:
        verdict = Verdict(fitting, reason=nothing)
    else:
        more = outside or Graded(Sifted(), graded.action)
        pairs = zip_longest(graded.sifted.kept, more.sifted.kept)
        verdict = Verdict(
            [candidate for pair in pairs for candidate in pair if candidate is not None],
            fallback="search" if outside else "",
            reason=f"graded {graded.action}" if outside else "",
            action=min(graded.action, more.action, key=list(Action).index),
            confidences={**graded.confidences, **more.confidences},
        )
    if in_danger:
        return replace(verdict, fallback="", reason="a crisis question", asks_person=True)
    if graded is None or verdict.action is not Action.INCORRECT:
        return verdict
    reason = (empty or "nothing relevant was found") + (", nor by search" if outside else "")
    ranked = sorted(graded.confidences.items(), key=lambda item: -item[1])[:3]
    if ranked:
        best = ", ".join(f"{id} ({mark:.2f})" for id, mark in ranked)
        reason = f"{reason}; the best refused: {best}"
    return replace(verdict, fallback="", reason=reason, asks_person=True)
