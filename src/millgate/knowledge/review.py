"""The review queue: questions that wait for a person.

pending → answered | approved | rejected | expired, once; a second decision is refused and changes nothing.
An answer becomes a fact with high trust, in the reviewer's words; the question's words are its tags, so that memory
answers the question the next time. Approval raises the trust
of the facts that were found, rejection lowers it. Asking a question again while it waits returns the waiting item: its
id is the digest of the question and of how often the question was decided before. One caller's questions are counted,
since people read slowly.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import count
from threading import Lock

from millgate.calls.loop import async_version
from millgate.errors import BusyError, InputError, LimitError, NotFound, NotReady, StoreError
from millgate.knowledge.facts import Facts, Feedback, with_trust
from millgate.protocols import Clock, Store
from millgate.text.redact import redact
from millgate.text.stopwords import ENGLISH
from millgate.text.words import tokens
from millgate.types import Fact, Review, ReviewStatus
from millgate.types.check import check_length, explain_all_keywords
from millgate.types.lengths import FACT_CHARS, LABEL_CHARS, NAME_CHARS, NOTE_CHARS
from millgate.types.policy import Policy, Positive, PositiveCount, Tuning, Unit

DAY = 86_400.0
PATIENCE_S = 0.02  # that a request waits for another writer before its review is written behind it
QUESTION_WORDS = 16  # by which its answer is found; most questions have fewer

Defer = Callable[[str, Callable[[], object]], str]
"""Queues a named write; answers what is wrong, "" when nothing is."""


class ReviewPolicy(Policy):
    """When a person is asked, and what an answer is worth."""

    enabled: bool = True
    """Off: nothing is put into the queue."""
    on_refusal: bool = False
    """Ask a person too when nothing relevant was found; one that tells of a person in danger is asked in any case."""
    days: Tuning[Positive] = 7.0
    """Days after which an undecided question expires."""
    trust: Tuning[Unit] = 0.9
    """Trust of a fact that a reviewer's answer becomes."""
    redact: Tuning[bool] = True
    """Whether secrets of well-known forms in a question are replaced by placeholders."""
    pending: Tuning[PositiveCount] = 1000
    """Most questions that wait at once; beyond it no more are taken."""
    hourly: Tuning[PositiveCount] = 60
    """Most new questions of one caller of the service in an hour."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decided review, the fact its answer became, and how the trust of found facts moved."""

    review: Review
    fact: Fact | None = None
    feedback: tuple[Feedback, ...] = ()


HOUR_S = 3600.0
CALLERS = 10_000  # remembered


class AskRate:
    """Counts new questions by tenant and caller. Safe to share between threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[tuple[str, str], list[float]] = {}
        self._lock = Lock()

    def count(self, tenant: str, asker: str, most: int) -> None:
        """Count a new question; BusyError, and no count, if this caller put `most` in the last hour."""
        now = self._clock()
        with self._lock:
            asked = [one for one in self._asked.pop((tenant, asker), ()) if one > now - HOUR_S]
            self._asked[tenant, asker] = asked
            while len(self._asked) > CALLERS:
                del self._asked[next(iter(self._asked))]
            if len(asked) >= most:
                raise BusyError(
                    f"this caller has put {most} questions before a person within the hour",
                    retry_after=asked[0] + HOUR_S - now,
                    hint="ask again later, or decide some: millgate reviews list",
                )
            asked.append(now)


@explain_all_keywords
class ReviewQueue:
    """The questions of one tenant that wait for a person, and the decisions on them."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        policy: ReviewPolicy | None = None,
        *,
        clock: Clock = time.time,
        defer: Defer | None = None,
        rate: AskRate | None = None,
    ) -> None:
        self._rate = rate
        self._store = store
        self._tenant = tenant
        self._policy = policy or ReviewPolicy()
        self._clock = clock
        self._defer = defer

    def ask(
        self, query: str, *, collection: str, grades: dict[str, float], reason: str, asker: str = ""
    ) -> Review | None:
        """Put a question into the queue, or find it there; None when the queue is off.

        New questions of one `asker` are counted by the hour; an empty one is not.
        """
        if not self._policy.enabled:
            return None
        query = redact(query) if self._policy.redact else query
        now = self._clock()
        for times in count():
            key = f"{collection}\0{times}\0{query}".encode("utf-8", "surrogatepass")
            id = blake2b(key, digest_size=6).hexdigest()
            held = self._store.review(self._tenant, id)
            if held is None:
                break
            if held.status == "pending" and held.expires > now:
                return held
            if held.status == "pending":
                self._expire(held)
        if self._rate and asker:
            self._rate.count(self._tenant, asker, self._policy.hourly)
        review = Review(
            id=id,
            query=query[:FACT_CHARS],  # which a person reads, and a list shows for each
            collection=collection[:NAME_CHARS],
            grades=grades,
            reason=reason,
            created=now,
            expires=now + self._policy.days * DAY,
        )
        self._save_soon(review)
        return review

    def _save_soon(self, review: Review) -> None:
        """Save a review now, or behind the request when another writer holds the store."""
        if self._defer is None:
            return self._save(review)
        try:
            return self._save(review, patience_s=PATIENCE_S)
        except NotReady:
            if problem := self._defer(f"review {review.id}", partial(self._save, review)):
                raise StoreError(problem) from None

    def _save(self, review: Review, *, patience_s: float | None = None) -> None:
        """Put it into the queue; when that is full, expire old items and try once more."""
        most = self._policy.pending
        if self._store.save_review(self._tenant, review, most=most, patience_s=patience_s):
            return
        self.reviews("pending")
        if not self._store.save_review(self._tenant, review, most=most):
            raise LimitError(
                f"{most:,} reviews are waiting, which is all that review.pending allows",
                hint="decide some: millgate reviews list",
            )

    def _expire(self, review: Review) -> None:
        self._store.decide(self._tenant, replace(review, status="expired", decided=review.expires))

    def reviews(self, status: ReviewStatus | None = None) -> list[Review]:
        """The reviews with that status, oldest first; reviews past their date are expired first.

        For example: `[review.query for review in gate.reviews.reviews("pending")]`.
        """
        now = self._clock()
        for review in self._store.reviews(self._tenant, status="pending"):
            if review.expires <= now:
                self._expire(review)
        return self._store.reviews(self._tenant, status=status)

    def review(self, id: str) -> Review:
        """One review; an error when there is none of that id.

        For example: `gate.reviews.review(context.review).reason`.
        """
        review = self._store.review(self._tenant, id)
        if review is None:
            raise NotFound(
                f"no review has the id {id!r}", hint="`millgate reviews list` shows them all"
            )
        if review.status == "pending" and review.expires <= self._clock():
            self._expire(review)
            return self._store.review(self._tenant, id) or review
        return review

    def draft(self, id: str, text: str) -> Fact:
        """The fact that an answer would become, exactly as it would be stored; nothing is decided yet.

        For example: `gate.reviews.draft(id, "Refunds take five days.")`.
        """
        if not text.strip():
            raise InputError("the answer is empty", hint="write a sentence, or reject the review")
        review = self.review(id)
        # the reviewer's words alone are trusted; of the question only single words stay, to find the answer by
        asked = dict.fromkeys(word for word in tokens(review.query) if word not in ENGLISH)
        return self._facts().make(
            text,
            category="review",
            tags=(f"review:{review.id}", *list(asked)[:QUESTION_WORDS]),
            trust=self._policy.trust,
        )

    def answer(
        self, id: str, text: str, *, who: str = "", note: str = "", confirmed: str | None = None
    ) -> Decision:
        """Answer the question; the answer becomes a trusted fact.

        `confirmed` is the content that the reviewer saw in the draft: any other is refused.

        For example: `gate.reviews.answer(id, "Refunds take five days.", who="ada")`.
        """
        fact, review, trust = self.draft(id, text), self.review(id), self._policy.trust
        if confirmed is not None and confirmed != fact.content:
            raise InputError(
                f"the fact would be stored as {fact.content!r}, which is not what was confirmed",
                hint="look at the draft again, and confirm what it says",
            )
        known: list[Fact] = []

        def confirm(fact: Fact) -> Fact:
            trusted = with_trust(fact, trust, f"review {review.id}", self._clock())
            known.append(trusted if fact.trust < trust else fact)
            return known[-1]

        decided = replace(review, status="answered", who=who, note=note, answer=text)
        return Decision(
            self._decide(decided, fact=fact, amend=confirm), known[-1] if known else fact
        )

    def approve(self, id: str, *, who: str = "", note: str = "") -> Decision:
        """Confirm what was found; the facts among it gain trust.

        For example: `gate.reviews.approve(id, who="ada")`.
        """
        return self._judge(replace(self.review(id), status="approved", who=who, note=note))

    def reject(self, id: str, *, who: str = "", note: str = "") -> Decision:
        """Reject what was found; the facts among it lose trust.

        For example: `gate.reviews.reject(id, who="ada", note="out of date")`.
        """
        return self._judge(replace(self.review(id), status="rejected", who=who, note=note))

    adraft = async_version(draft)
    aanswer = async_version(answer)
    aapprove = async_version(approve)
    areject = async_version(reject)
    areview = async_version(review)
    areviews = async_version(reviews)

    def _judge(self, review: Review) -> Decision:
        """Decide, with feedback for the facts among what was found; chunks of documents have no trust."""
        facts, helpful = self._facts(), review.status == "approved"
        moves: list[Feedback] = []

        def change(fact: Fact) -> Fact:
            after = facts.after_feedback(fact, helpful=helpful, note=f"review {review.id}")
            moves.append(Feedback(fact.id, fact.trust, after.trust))
            return after

        decided = self._decide(review, ids=tuple(review.grades), amend=change)
        return Decision(decided, feedback=tuple(moves))

    def _decide(
        self,
        review: Review,
        *,
        fact: Fact | None = None,
        ids: Sequence[str] = (),
        amend: Callable[[Fact], Fact],
    ) -> Review:
        """Move a pending review once, together with what follows from it; the first decision stands."""
        check_length("who", review.who, LABEL_CHARS)
        check_length("note", review.note, NOTE_CHARS)
        decided = replace(review, decided=self._clock())
        if not self._store.decide(self._tenant, decided, fact=fact, ids=ids, amend=amend):
            held = self.review(review.id)
            by = f" by {held.who}" if held.who else ""
            raise InputError(
                f"review {review.id!r} is already {held.status}{by}",
                hint="ask the question again to open a new one",
            )
        return decided

    def _facts(self) -> Facts:
        return Facts(self._store, self._tenant, clock=self._clock)
