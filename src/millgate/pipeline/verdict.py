"""Verdict: what becomes of a question once its candidates are graded.

Correct: show them. Ambiguous: show them, with what a search brings beside them. Incorrect: only what a search brings;
and if that is off, fails or is not better, the context is empty and says what it refused. If the setting asks for it,
the question waits in the review queue for a person.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from millgate.notes import NoteCode, Stage
from millgate.own_parts import await_part
from millgate.protocols import Bands, WebSearch
from millgate.stages.grade import Action, Graded, GradePolicy, outside_candidates
from millgate.types import Candidate, Plan, Sifted, Strategy, Tier


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be shown, long chunks as strips; which fallback was asked and why; the review that waits."""

    kept: Sequence[Candidate] = ()
    strips: Mapping[str, str] = field(default_factory=dict)
    fallback: str = ""
    reason: str = ""
    review: str = ""
    action: Action | None = None
    """What grading came to; None if nothing was graded."""
    confidences: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_doubtful(self) -> bool:
        """Whether what may be shown may not answer the question."""
        return self.action is Action.AMBIGUOUS

    def with_review(self, reason: str, review: str | None) -> "Verdict":
        """The verdict after a person was asked; `review` is None if the queue is off."""
        if review is None:
            return replace(self, fallback="", reason=reason)
        return replace(self, fallback="review", reason=reason, review=review)


def verdict_without_grading(
    fitting: Sequence[Candidate],
    candidates: Sequence[Candidate],
    *,
    gradable: bool,
    budget: int = 0,
    frame: int = 0,
) -> Verdict | None:
    """The verdict if there is nothing to grade; None if grading decides.

    `candidates` are all of the request so far, read only when nothing fits. Without an index what was found is shown as
    it is. `frame` are the tokens that the fence takes of the budget.
    """
    if not gradable:
        return Verdict(fitting)
    if not fitting and any(is_in_window(candidate) for candidate in candidates):
        return Verdict(reason="everything relevant is in the window already")
    if not fitting and (least := _least_without_room(candidates)):
        return Verdict(
            reason=f"nothing of what was found fits the budget of {budget:,} tokens: "
            f"the smallest chunk takes {least:,.0f}, and the fence around it up to {frame:,}"
        )
    return None


def _least_without_room(candidates: Sequence[Candidate]) -> float:
    """The tokens of the smallest candidate that did not fit; 0 if all did."""
    last = [candidate.notes[-1] for candidate in candidates if candidate.dropped]
    sizes = [note.numbers["tokens"] for note in last if note.code is NoteCode.NO_ROOM]
    return min(sizes, default=0.0)


def bands_for(plan: Plan, own: Bands, policy: GradePolicy) -> Bands:
    """The bands in force: in a nearly full window only what is likely to help passes. `own` are the grader's bands.

    A task on a whole collection (summarize it, translate it) is about all of it, so all of it passes, with its grades.
    """
    if plan.strategy is Strategy.STUFF and plan.task == "stuff_friendly":
        return Bands(0.0, 0.0, 0.0)
    bands = policy.bands(own)
    return replace(bands, floor=bands.lower) if plan.tier is Tier.SELECTIVE else bands


async def search_outside(
    search: WebSearch,
    query: str,
    *,
    limit: int,
    taken: Container[str],
    timeout_s: float | None = None,
) -> Sifted:
    """What a search outside brings, as untrusted candidates whose ids are not `taken`."""
    found = await await_part("search", timeout_s, search.search, query, limit=limit)
    return outside_candidates(found, taken=taken)


def conclude(
    graded: Graded, outside: Graded | None, *, review_reason: str, review: str | None
) -> Verdict:
    """The verdict on what was found here and outside; `review` is None if the queue is off."""
    more = outside or Graded(Sifted(), graded.action)
    verdict = Verdict(
        _alternate(graded.sifted.kept, more.sifted.kept),
        {**graded.strips, **more.strips},
        action=min(graded.action, more.action, key=list(Action).index),
        confidences={**graded.confidences, **more.confidences},
    )
    if review_reason:
        return verdict.with_review(review_reason, review)
    if outside:
        return replace(verdict, fallback="search", reason=f"graded {graded.action}")
    return verdict


def is_in_window(candidate: Candidate) -> bool:
    """Whether it was left out because the window holds it, and not because it repeats another candidate."""
    last = candidate.notes[-1] if candidate.dropped else None
    return bool(last and last.stage is Stage.PENALIZE and last.code is not NoteCode.REPEATS)


def is_shown(candidate: Candidate) -> bool:
    """Whether the window holds it, or nearly all of it."""
    codes = {note.code for note in candidate.notes if note.stage is Stage.PENALIZE}
    return not codes.isdisjoint({NoteCode.IN_WINDOW, NoteCode.NEARLY_IN_WINDOW})


def _alternate(one: Sequence[Candidate], other: Sequence[Candidate]) -> list[Candidate]:
    """Two rankings in turns, so that neither takes the whole budget."""
    both = zip_longest(one, other)
    return [candidate for pair in both for candidate in pair if candidate is not None]
