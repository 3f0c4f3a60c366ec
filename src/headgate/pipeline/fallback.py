"""Correct: grade what fits; where it is not enough, search outside, then ask a person.

correct: go on.  ambiguous: go on, with what a search brings beside it.  incorrect: only what a search brings; and
when that is off, fails or is no better, the answer is empty, says what it refused, and the question waits in the review
queue where the setting asks for it. What is left over beside what the window shows already is not an answer either.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from headgate.memory.review import ReviewPolicy, ReviewQueue
from headgate.pipeline.recorder import Story
from headgate.protocols import Clock, Grader, Store, WebSearch
from headgate.relevance.left_over import is_left_over
from headgate.relevance.query_terms import Vocabulary
from headgate.stages.grade import (
    CRISIS,
    Action,
    Bands,
    Calibrated,
    Graded,
    GradePolicy,
    grade,
    outside,
    wants_review,
    wants_search,
)
from headgate.types import DROP, SIDE, Candidate, Plan, Request, Sifted, Tier

Sift = Callable[[Sequence[Candidate]], Sequence[Candidate]]


@dataclass(frozen=True, slots=True)
class Judged:
    """What may be shown, long chunks as strips; which fallback was asked and why; the review that waits."""

    kept: Sequence[Candidate] = ()
    strips: Mapping[str, str] = field(default_factory=dict)
    fallback: str = ""
    reason: str = ""
    review: str = ""


@dataclass(frozen=True, slots=True)
class Corrector:
    """The verdict on what was found, and the two fallbacks. Without a grader the built-in one judges."""

    store: Store
    grading: GradePolicy
    reviewing: ReviewPolicy
    clock: Clock
    grader: Grader | None = None
    search: WebSearch | None = None

    async def judge(
        self,
        request: Request,
        plan: Plan,
        story: Story,
        fitting: Sequence[Candidate],
        *,
        found: Sequence[Candidate],
        words: Vocabulary,
        embedded: bool,
        sift: Sift,
    ) -> Judged:
        """What may be shown of what fits.

        `found` is the ranking it was taken from, in which an embedder may have had a part; `sift` the way through
        penalize and gate that results from outside take.
        """
        seen = [c for c in story.candidates if _seen(c)]
        if seen and is_left_over(request.query, fitting, seen, words):
            story.sift("grade", fitting, lambda: _leave_out(fitting))
            return Judged(reason="everything relevant is in the window already")
        if not fitting and any(c.chunk.source not in SIDE for c in found):
            return Judged(reason="nothing of what was found fits the budget")
        grader = self.grader or Calibrated(words, found, seen=seen, embedded=embedded)
        graded = await self._grade(request, plan, story, fitting, grader)
        searched = None
        if self.search is not None and wants_search(graded.action):
            searched = await self._outside(request, plan, story, words, sift)
        more = searched or Graded(Sifted(), Action.INCORRECT)
        kept = _in_turn(graded.sifted.kept, more.sifted.kept)
        strips = {**graded.strips, **more.strips}
        verdict = searched.action if searched else None
        reason = wants_review(graded.action, searched=verdict, group=plan.group)
        if graded.refusal and graded.action is Action.INCORRECT:
            reason += f"; the best refused: {graded.refusal}" if reason else ""
        asked = plan.group == CRISIS or self.reviewing.on_refusal
        if reason and asked and self.reviewing.enabled:
            review = await asyncio.to_thread(self._person, request, story, graded, reason)
            story.mark("grade", {"review": review})
            return Judged(kept, strips, "review", reason, review)
        if reason:
            return Judged(kept, strips, "", reason)
        return Judged(kept, strips, *(("search", f"graded {graded.action}") if searched else ()))

    async def _grade(
        self,
        request: Request,
        plan: Plan,
        story: Story,
        fitting: Sequence[Candidate],
        grader: Grader,
    ) -> Graded:
        """The verdict on some candidates; a grader that fails lets all of them pass."""
        policy = self.grading
        if plan.tier is Tier.SELECTIVE:  # hardly any room: only what is likely to help
            lower = policy.bands(getattr(grader, "bands", Bands())).lower
            policy = policy.model_copy(update={"floor": lower})
        graded = await story.asift(
            "grade",
            fitting,
            lambda: grade(request.query, fitting, grader, policy),
            instead=Graded(Sifted(kept=tuple(fitting)), Action.CORRECT),
        )
        story.mark("grade", {"action": graded.action.value})
        return graded

    async def _outside(
        self, request: Request, plan: Plan, story: Story, words: Vocabulary, sift: Sift
    ) -> Graded | None:
        """What a search outside brings, sifted and graded like anything else; None when it failed."""
        failed = Graded(Sifted(), Action.INCORRECT)
        came = await story.asift("search", (), lambda: self._ask(request), instead=failed)
        if came is failed:
            return None
        fresh = await asyncio.to_thread(sift, came.sifted.kept)
        return await self._grade(request, plan, story, fresh, self.grader or Calibrated(words))

    async def _ask(self, request: Request) -> Graded:
        assert self.search is not None
        chunks = await self.search.search(request.query, limit=self.grading.search_limit)
        return Graded(outside(chunks), Action.AMBIGUOUS)

    def _person(self, request: Request, story: Story, graded: Graded, reason: str) -> str:
        """The id of the review that now waits, or "" when the queue could not take it."""
        queue = ReviewQueue(self.store, request.tenant, self.reviewing, clock=self.clock)
        review = story.soften(
            "review",
            lambda: queue.ask(
                request.query,
                collection=request.collection,
                grades=dict(graded.confidences),
                reason=reason,
            ),
            instead=None,
        )
        return review.id if review else ""


def _seen(candidate: Candidate) -> bool:
    """Whether it was left out because the window holds it."""
    return candidate.dropped and candidate.notes[-1].stage == "penalize"


def _leave_out(fitting: Sequence[Candidate]) -> Sifted:
    reason = "says less than what the window shows already"
    return Sifted(dropped=tuple(c.noted("grade", DROP, reason) for c in fitting))


def _in_turn(one: Sequence[Candidate], other: Sequence[Candidate]) -> list[Candidate]:
    """Two rankings as one, by turns, so that neither takes the whole budget."""
    both = zip_longest(one, other)
    return [candidate for pair in both for candidate in pair if candidate is not None]
