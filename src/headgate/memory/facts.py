"""Facts: what is worth remembering, and the trust it earns.

score = relevance · trust · 0.5^(age / half-life), the last only where a half-life is set; nothing under the
minimal trust is recalled. Feedback moves trust by +0.05 (helpful) or −0.10 (unhelpful), within 0..1
(published), and every move is written into the fact's history with its reason.
A fact that is said again is the fact that is there; one that seems to oppose another is kept, with a hint.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from heapq import nsmallest
from math import isfinite

from headgate.errors import InputError, LimitError, NotFound
from headgate.memory.conflicts import Conflict, conflict
from headgate.memory.shelf import Shelf, distinct
from headgate.policy import Policy, Positive, PositiveCount, Unit
from headgate.protocols import Clock, Facts
from headgate.text.names import entities
from headgate.types import ADD, DROP, Candidate, Chunk, Fact, Plan, Sifted, TrustChange

DAY = 86_400.0
HISTORY = 100  # changes of trust kept with a fact
CANDIDATES = 50  # facts a recall judges; a word that all facts share would bring them all
NEAR = 20  # most relevant facts that a new one is compared with


class FactsPolicy(Policy):
    """How facts are trusted, found and forgotten."""

    trust: Unit = 0.5
    """Trust of a new fact."""
    helpful: Unit = 0.05
    """Trust gained by helpful feedback."""
    unhelpful: Unit = 0.10
    """Trust lost by unhelpful feedback."""
    limit: PositiveCount = 5
    """Facts recalled where the plan names no limit."""
    min_trust: Unit = 0.3
    """Least trust of a recalled fact where the plan names none."""
    min_relevance: Unit = 0.1
    """Least relevance of a recalled fact: one common word of ten is chance."""
    half_life_days: Positive | None = None
    """Days in which the score of a fact that nobody touches falls by half; none: age does not matter."""
    fact_chars: PositiveCount = 10_000
    """Longest fact, in characters; longer texts are documents."""


@dataclass(frozen=True, slots=True)
class Added:
    """What came of adding a fact: the fact, whether it is new, and which facts it seems to oppose."""

    fact: Fact
    new: bool
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class Feedback:
    """How feedback moved a fact's trust."""

    id: str
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A fact that fits a query: how well, and what that is worth with its trust and age."""

    fact: Fact
    relevance: float
    score: float


class Notebook:
    """The facts of one tenant. Safe to share between threads; other processes may write beside it."""

    def __init__(
        self,
        store: Facts,
        tenant: str,
        policy: FactsPolicy | None = None,
        *,
        clock: Clock = time.time,
    ) -> None:
        self.policy = policy or FactsPolicy()
        self._store = store
        self._tenant = tenant
        self._clock = clock
        self._shelf = Shelf(store, tenant)

    def now(self) -> float:
        """Seconds since the epoch, by this notebook's clock."""
        return self._clock()

    def add(
        self,
        content: str,
        *,
        category: str = "general",
        tags: Iterable[str] = (),
        names: Iterable[str] = (),
        trust: float | None = None,
    ) -> Added:
        """Remember a fact. `names` are entities beyond those its text shows."""
        content = self._content(content)
        known = self._shelf.twin(content)
        if known:
            return Added(known, new=False)
        now = self.now()
        fact = Fact(
            id=self._id(content, now),
            content=content,
            category=_label(category) or "general",
            tags=distinct(filter(None, map(_label, tags))),
            entities=distinct(filter(None, map(_label, names)), entities(content)),
            trust=_unit(self.policy.trust if trust is None else trust),
            created=now,
            updated=now,
        )
        saved = self._store.save_fact(self._tenant, fact)
        if saved.id != fact.id:  # another process was quicker
            return Added(saved, new=False)
        return Added(saved, new=True, conflicts=self.conflicts(saved))

    def update(
        self,
        id: str,
        *,
        content: str | None = None,
        category: str | None = None,
        tags: Iterable[str] | None = None,
        trust: float | None = None,
    ) -> Fact:
        """Change what a fact says or how it is filed; what is None stays."""
        fact = self.fact(id)
        if content is not None:
            fact = self._reword(fact, self._content(content))

        def change(fact: Fact) -> Fact:
            changed = replace(
                fact,
                category=fact.category if category is None else _label(category) or "general",
                tags=fact.tags if tags is None else distinct(filter(None, map(_label, tags))),
                updated=self.now(),
            )
            return changed if trust is None else moved(changed, _unit(trust), "set", self.now())

        return self.amend(fact.id, change)

    def forget(self, id: str) -> None:
        """Forget a fact with its history; an error when there is none."""
        if not self._store.forget(self._tenant, id):
            raise _unknown(id)

    def fact(self, id: str) -> Fact:
        """The fact of that id; an error when there is none."""
        fact = self._store.fact(self._tenant, id)
        if fact is None:
            raise _unknown(id)
        return fact

    def facts(self, *, category: str | None = None, min_trust: float = 0.0) -> list[Fact]:
        """All facts, the most trusted first."""
        found = (f for f in self._shelf.facts() if category in (None, f.category))
        return sorted(
            (f for f in found if f.trust >= min_trust), key=lambda f: (-f.trust, f.content)
        )

    def search(
        self, query: str, *, limit: int | None = None, min_trust: float | None = None
    ) -> list[Hit]:
        """The facts that fit a query, best first, none under the minimal trust."""
        least = self.policy.min_trust if min_trust is None else _unit(min_trust)
        most = self.policy.limit if limit is None else limit
        fit = (hit for hit in self._hits(query) if not self._against(hit, least))
        return nsmallest(max(most, 0), fit, key=_rank)

    def recall(self, query: str, plan: Plan | None = None) -> Sifted:
        """The facts that fit a query as candidates of source "memory", all of them added here.

        The plan's min_trust and limit say which are kept; the others are dropped with their reason.
        """
        policy = self.policy
        least = policy.min_trust if plan is None or plan.min_trust is None else plan.min_trust
        most = policy.limit if plan is None or plan.limit is None else plan.limit
        judged: list[Candidate] = []
        kept = 0
        for hit in nsmallest(CANDIDATES, self._hits(query), key=_rank):
            candidate = _candidate(hit)
            reason = self._against(hit, least) or ("" if kept < most else f"beyond limit {most}")
            kept += not reason
            judged.append(candidate.noted("memory", DROP, reason) if reason else candidate)
        return Sifted.split(judged, added=judged)

    def recalled(self, ids: Iterable[str]) -> None:
        """Count that these facts reached a model."""
        for id in ids:
            self._store.amend_fact(
                self._tenant, id, lambda fact: replace(fact, recalled=fact.recalled + 1)
            )

    def feedback(self, id: str, *, helpful: bool, note: str = "") -> Feedback:
        """Tell whether a fact helped; its trust before and after."""
        step = self.policy.helpful if helpful else -self.policy.unhelpful
        reason = "helpful" if helpful else "unhelpful"
        before: list[float] = []

        def change(fact: Fact) -> Fact:
            before.append(fact.trust)
            counted = replace(
                fact, helpful=fact.helpful + helpful, unhelpful=fact.unhelpful + (not helpful)
            )
            said = f"{reason}: {_label(note)}" if note else reason
            return moved(counted, fact.trust + step, said, self.now())

        after = self.amend(id, change)
        return Feedback(id, before[-1], after.trust)

    def conflicts(self, fact: Fact) -> tuple[Conflict, ...]:
        """Hints at facts that seem to say the opposite."""
        hints = (conflict(fact, other) for other in self.near(fact))
        return tuple(hint for hint in hints if hint)

    def near(self, fact: Fact) -> list[Fact]:
        """The facts whose words are nearest to those of this one."""
        found = self._shelf.relevant(fact.content)
        nearest = nsmallest(NEAR + 1, found, key=lambda hit: (-hit[1], hit[0].content))
        return [other for other, _ in nearest if other.id != fact.id]

    def amend(self, id: str, change: Callable[[Fact], Fact]) -> Fact:
        """Change a fact in one step, so that no other change is lost; an error when there is none."""
        fact = self._store.amend_fact(self._tenant, id, change)
        if fact is None:
            raise _unknown(id)
        return fact

    def _reword(self, fact: Fact, content: str) -> Fact:
        other = self._shelf.twin(content)
        named = [n for n in fact.entities if n not in entities(fact.content)]
        worded = replace(fact, content=content, entities=distinct(named, entities(content)))
        saved = other or worded
        if saved.id == fact.id:
            saved = self._store.save_fact(self._tenant, worded)
        if saved.id != fact.id:
            raise InputError(
                f"fact {saved.id!r} says this already", hint="forget one of them, or merge"
            )
        return saved

    def _hits(self, query: str) -> Iterator[Hit]:
        """Every fact that shares a term with the query, in no order."""
        now, half = self.now(), self.policy.half_life_days
        for fact, relevance in self._shelf.relevant(query):
            faded = fade(fact, now, half) if half else 1.0
            yield Hit(fact, relevance, relevance * fact.trust * faded)

    def _against(self, hit: Hit, min_trust: float) -> str:
        """Why a fact is not recalled, or nothing."""
        if hit.fact.trust < min_trust:
            return f"trust {hit.fact.trust:.2f} below {min_trust:.2f}"
        if hit.relevance < self.policy.min_relevance:
            return f"relevance {hit.relevance:.2f} below {self.policy.min_relevance:.2f}"
        return ""

    def _content(self, text: str) -> str:
        content = _label(text)
        if not content:
            raise InputError("the fact is empty", hint="say what should be remembered")
        if len(content) > self.policy.fact_chars:
            raise LimitError(
                f"the fact has {len(content):,} characters; at most {self.policy.fact_chars:,} are kept",
                hint="add it as a document, or raise facts.fact_chars",
            )
        return content

    def _id(self, content: str, now: float) -> str:
        for attempt in range(1_000):
            digest = sha256(f"{now!r}|{attempt}|{content}".encode()).hexdigest()
            if self._store.fact(self._tenant, f"f-{digest[:12]}") is None:
                return f"f-{digest[:12]}"
        raise InputError("no free id was found for the fact")


def _rank(hit: Hit) -> tuple[float, str]:
    """Best first; equals by their words, since ids depend on when a fact was told."""
    return -hit.score, hit.fact.content


def _candidate(hit: Hit) -> Candidate:
    fact = hit.fact
    chunk = Chunk(
        id=fact.id,
        text=fact.content,
        document="facts",
        source="memory",
        metadata={"category": fact.category, "tags": fact.tags, "trust": fact.trust},
    )
    reason = f"relevance {hit.relevance:.2f}, trust {fact.trust:.2f}"
    return Candidate(chunk, hit.score).noted("memory", ADD, reason, value=hit.relevance)


def moved(fact: Fact, trust: float, reason: str, now: float) -> Fact:
    """The fact with another trust, within 0..1, and the move in its history."""
    new = round(min(1.0, max(0.0, trust)), 6)
    step = TrustChange(now, fact.trust, new, reason)
    return replace(fact, trust=new, updated=now, history=(*fact.history, step)[-HISTORY:])


def fade(fact: Fact, now: float, half_life_days: float) -> float:
    """What age since the last touch leaves of a fact: 1 now, 1/2 after the half-life."""
    age = max(0.0, now - max(fact.updated, fact.created)) / DAY
    return float(0.5 ** (age / half_life_days))


def _label(text: str) -> str:
    """One line, without control characters and without what UTF-8 cannot hold."""
    if not isinstance(text, str):
        raise InputError(f"a fact is made of text, not {type(text).__name__}")
    shown = "".join(c if c.isprintable() or c.isspace() else " " for c in text)
    return " ".join(shown.encode("utf-8", "replace").decode().split())


def _unit(trust: float) -> float:
    if not (isfinite(trust) and 0 <= trust <= 1):
        raise InputError(f"trust is {trust}; it must be within 0..1")
    return float(trust)


def _unknown(id: str) -> NotFound:
    return NotFound(f"no fact has the id {id!r}", hint="`headgate facts` lists them")
