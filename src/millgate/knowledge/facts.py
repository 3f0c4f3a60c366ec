"""Facts: what an agent remembers, and the trust it earns.

score = relevance · trust · 0.5^(age / half-life), the last factor only with a half-life; facts under the
minimal trust are not recalled. Feedback moves trust by +0.05 (helpful) or −0.10 (unhelpful), within 0..1,
and every move is written into the fact's history with its reason.
Adding a known fact returns the known one. A text that only repeats what Millgate itself injected (injected.py) is
neither stored nor taken for a confirmation.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from heapq import nsmallest
from itertools import chain, count, islice
from math import isfinite

from millgate.calls.loop import async_version
from millgate.errors import InputError, LimitError, NotFound
from millgate.knowledge.fact_index import FactIndex, language_of
from millgate.knowledge.injected import Injected, is_framing
from millgate.protocols import Clock, FactStore
from millgate.text.fence import without_fences
from millgate.text.names import entities
from millgate.text.redact import redact
from millgate.types import Candidate, Chunk, Fact, Plan, Sifted, TrustChange
from millgate.types.check import check_type, explain_all_keywords
from millgate.types.lengths import FACT_CHARS, LABEL_CHARS, MOST_LABELS, NOTE_CHARS
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, Positive, PositiveCount, Tuning, Unit

# best facts a recall considers; a word that all facts share would find them all
MAX_CANDIDATES = 50
# facts that one is compared with: one that says the same is among the first by shared terms
COMPARED = 20
DAY = 86_400.0
HISTORY = 100  # changes of trust kept with a fact: chosen to bound its row, and far more than a reader looks at


class FactsPolicy(Policy):
    """How facts are trusted, found and forgotten."""

    trust: Tuning[Unit] = 0.5
    """Trust of a new fact."""
    helpful: Tuning[Unit] = 0.05
    """Trust gained by helpful feedback."""
    unhelpful: Tuning[Unit] = 0.10
    """Trust lost by unhelpful feedback."""
    limit: Tuning[PositiveCount] = 5
    """Facts recalled if the plan names no limit."""
    min_trust: Unit = 0.3
    """Least trust of a recalled fact if the plan names none."""
    min_relevance: Tuning[Unit] = 0.1
    """Least relevance of a recalled fact: one common word of ten is chance."""
    half_life_days: Positive | None = None
    """Days in which the score of a fact falls by half unless it is updated; none: age does not matter."""
    redact: Tuning[bool] = True
    """Whether secrets of well-known forms are replaced by placeholders."""
    fact_chars: Tuning[PositiveCount] = FACT_CHARS
    """Longest fact, in characters; longer texts are documents."""


@dataclass(frozen=True, slots=True)
class AddedFact:
    """The result of adding a fact: the fact, and whether it is new.

    If the text `repeats_injected_text` of Millgate, nothing was stored, and the fact has no id.
    """

    fact: Fact
    new: bool
    repeats_injected_text: bool = False


@dataclass(frozen=True, slots=True)
class Feedback:
    """How feedback moved a fact's trust."""

    id: str
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class FactHit:
    """A fact that fits a query: its relevance, and its score with trust and age."""

    fact: Fact
    relevance: float
    score: float


@explain_all_keywords
class Facts:
    """The facts of one tenant. Safe to share between threads; other processes may write to the same store."""

    def __init__(
        self,
        store: FactStore,
        tenant: str,
        policy: FactsPolicy | None = None,
        *,
        clock: Clock = time.time,
        injected: Injected | None = None,
    ) -> None:
        self.policy = policy or FactsPolicy()
        self._store = store
        self._tenant = tenant
        self._clock = clock
        self._injected = injected
        self._index = FactIndex(store, tenant)

    def now(self) -> float:
        """Seconds since the epoch, by the clock given."""
        return self._clock()

    def add(
        self,
        content: str,
        *,
        category: str = "general",
        tags: Iterable[str] = (),
        trust: float | None = None,
    ) -> AddedFact:
        """Remember a fact.

        For example: `gate.facts.add("Ada runs the ferry.", category="people", tags=["ferry"]).fact.id`.
        """
        given = self._content(content)
        content = _clean(without_fences(content), self.policy.fact_chars)
        known = self._index.same_fact(content)
        if known:
            return AddedFact(known, new=False)
        only_framing = content != given and is_framing(content)
        if only_framing or (self._injected and self._injected.contains(self._tenant, content)):
            return AddedFact(Fact("", given, trust=0.0), new=False, repeats_injected_text=True)
        fact = self.make(content, category=category, tags=tags, trust=trust)
        saved = self._store.save_fact(self._tenant, fact)
        return AddedFact(saved, new=saved.id == fact.id)  # or another process added it first

    def make(
        self,
        content: str,
        *,
        category: str = "general",
        tags: Iterable[str] = (),
        trust: float | None = None,
    ) -> Fact:
        """A checked fact with an id of its own, which is not saved yet."""
        content, now = self._content(content), self.now()
        return Fact(
            id=self._id(content, now),
            content=content,
            category=_clean(category, LABEL_CHARS) or "general",
            tags=_labels(tags),
            entities=unique_names(_entities(content)),
            trust=check_trust(self.policy.trust if trust is None else trust),
            created=now,
            updated=now,
        )

    def update(
        self,
        id: str,
        *,
        content: str | None = None,
        category: str | None = None,
        tags: Iterable[str] | None = None,
        trust: float | None = None,
    ) -> Fact:
        """Change a fact's content, category, tags or trust; what is None stays.

        For example: `gate.facts.update(id, trust=0.9)`.
        """
        fact = self.get(id)
        if content is not None:
            fact = self._reword(fact, self._content(content))

        def change(fact: Fact) -> Fact:
            label = (
                fact.category if category is None else _clean(category, LABEL_CHARS) or "general"
            )
            labels = fact.tags if tags is None else _labels(tags)
            changed = replace(fact, category=label, tags=labels, updated=self.now())
            if trust is None:
                return changed
            return with_trust(changed, check_trust(trust), "set", self.now())

        return self.amend(fact.id, change)

    def forget(self, id: str) -> None:
        """Forget a fact with its history; an error when there is none.

        For example: `gate.facts.forget(id)`.
        """
        if not self._store.forget(self._tenant, id):
            raise _not_found(id)

    def get(self, id: str) -> Fact:
        """The fact of that id; an error when there is none.

        For example: `gate.facts.get(id).content`.
        """
        fact = self._store.fact(self._tenant, id)
        if fact is None:
            raise _not_found(id)
        return fact

    def all(self, *, category: str | None = None, min_trust: float = 0.0) -> list[Fact]:
        """All facts, the most trusted first.

        For example: `[fact.content for fact in gate.facts.all(min_trust=0.5)]`.
        """
        found = (f for f in self._index.facts() if category in (None, f.category))
        return sorted(
            (f for f in found if f.trust >= min_trust), key=lambda f: (-f.trust, f.content)
        )

    def search(
        self, query: str, *, limit: int | None = None, min_trust: float | None = None
    ) -> list[FactHit]:
        """The facts that fit a query, best first, none under the minimal trust.

        For example: `[hit.fact.content for hit in gate.facts.search("who runs the ferry?")]`.
        """
        check_type("query", query, str)
        check_type("limit", limit, int, optional=True)
        least = self.policy.min_trust if min_trust is None else check_trust(min_trust)
        most = self.policy.limit if limit is None else limit
        relevant = self.policy.min_relevance
        fit = (h for h in self._hits(query) if h.fact.trust >= least and h.relevance >= relevant)
        return nsmallest(max(most, 0), fit, key=_rank_key)

    def recall(self, query: str, plan: Plan | None = None) -> Sifted:
        """The facts that fit a query as candidates of source "memory", all of them added here.

        The plan's min_trust and limit say which are kept; the others are dropped with their reason.
        """
        policy = self.policy
        least = policy.min_trust if plan is None or plan.min_trust is None else plan.min_trust
        most = policy.limit if plan is None or plan.limit is None else plan.limit
        best = nsmallest(MAX_CANDIDATES, self._hits(query), key=_rank_key)
        found = ((_as_candidate(hit, policy.min_relevance), hit.fact.trust) for hit in best)
        judged = list(judge_recalled(found, min_trust=least, limit=most))
        return Sifted.split(judged, added=judged)

    def count_recall(self, ids: Iterable[str]) -> None:
        """Add one to the recall count of these facts."""
        for id in ids:
            self._store.amend_fact(
                self._tenant, id, lambda fact: replace(fact, recalled=fact.recalled + 1)
            )

    def feedback(self, id: str, *, helpful: bool, note: str = "", highest: float = 1.0) -> Feedback:
        """Raise or lower the trust of a fact that did or did not help; its trust before and after.

        `highest` is as far as this caller's praise may raise it; what stands higher already stays.

        For example: `gate.facts.feedback(id, helpful=True)`.
        """
        check_type("helpful", helpful, bool)
        before: list[float] = []

        def change(fact: Fact) -> Fact:
            before.append(fact.trust)
            return self.after_feedback(fact, helpful=helpful, note=note, highest=highest)

        after = self.amend(id, change)
        return Feedback(id, before[-1], after.trust)

    def after_feedback(
        self, fact: Fact, *, helpful: bool, note: str = "", highest: float = 1.0
    ) -> Fact:
        """The fact as feedback leaves it, which is not saved yet."""
        step = self.policy.helpful if helpful else -self.policy.unhelpful
        reason = "helpful" if helpful else "unhelpful"
        counted = replace(
            fact, helpful=fact.helpful + helpful, unhelpful=fact.unhelpful + (not helpful)
        )
        why = f"{reason}: {_clean(note, NOTE_CHARS)}" if note else reason
        trust = min(fact.trust + step, max(highest, fact.trust))
        return with_trust(counted, trust, why, self.now())

    def similar(self, fact: Fact) -> list[Fact]:
        """The facts that share the most words with this one."""
        found = self._index.search(fact.content)
        ranked = nsmallest(COMPARED + 1, found, key=lambda hit: (-hit[1], hit[0].content))
        return [other for other, _ in ranked if other.id != fact.id]

    def amend(self, id: str, change: Callable[[Fact], Fact]) -> Fact:
        """Change a fact in one step, so that no other change is lost; an error when there is none."""
        fact = self._store.amend_fact(self._tenant, id, change)
        if fact is None:
            raise _not_found(id)
        return fact

    aadd = async_version(add)
    aupdate = async_version(update)
    aforget = async_version(forget)
    aget = async_version(get)
    asearch = async_version(search)
    afeedback = async_version(feedback)

    def _reword(self, fact: Fact, content: str) -> Fact:
        named = [n for n in fact.entities if n not in _entities(fact.content)]
        worded = replace(fact, content=content, entities=unique_names(named, _entities(content)))
        saved = self._index.same_fact(content)
        if saved is None or saved.id == fact.id:
            saved = self._store.save_fact(self._tenant, worded)
        if saved.id != fact.id:
            raise InputError(
                f"fact {saved.id!r} says this already", hint="forget one of them, or merge"
            )
        return saved

    def _hits(self, query: str) -> Iterator[FactHit]:
        """Every fact that shares a term with the query, in no order."""
        now, half = self.now(), self.policy.half_life_days
        for fact, relevance in self._index.search(query):
            age_days = max(0.0, now - max(fact.updated, fact.created)) / DAY
            factor = 0.5 ** (age_days / half) if half else 1.0
            yield FactHit(fact, relevance, relevance * fact.trust * factor)

    def _content(self, text: str) -> str:
        content = _clean(text, self.policy.fact_chars)
        if self.policy.redact:
            content = _clean(redact(content), self.policy.fact_chars)
        if not content:
            raise InputError("the fact is empty", hint="say what should be remembered")
        return content

    def _id(self, content: str, now: float) -> str:
        digests = (sha256(f"{now!r}|{n}|{content}".encode()).hexdigest() for n in count())
        ids = (f"f-{digest[:12]}" for digest in digests)
        return next(id for id in ids if self._store.fact(self._tenant, id) is None)


def _rank_key(hit: FactHit) -> tuple[float, str]:
    """Best first; ties by content, since ids depend on when a fact was added."""
    return -hit.score, hit.fact.content


def _as_candidate(hit: FactHit, min_relevance: float) -> Candidate:
    fact, relevance = hit.fact, hit.relevance
    chunk = Chunk(
        id=fact.id,
        text=fact.content,
        document="facts",
        source="memory",
        metadata={"category": fact.category, "tags": fact.tags, "trust": fact.trust},
    )
    found = Candidate(chunk, hit.score).with_note(
        Stage.MEMORY, Fate.ADD, NoteCode.FACT, relevance=relevance, trust=fact.trust
    )
    if relevance >= min_relevance:
        return found
    return found.with_note(
        Stage.MEMORY, Fate.DROP, NoteCode.LOW_RELEVANCE, relevance=relevance, min_relevance=min_relevance,
    )  # fmt: skip


def with_trust(fact: Fact, trust: float, reason: str, now: float) -> Fact:
    """The fact with another trust, within 0..1, and the change in its history."""
    new = round(min(1.0, max(0.0, trust)), 6)
    step = TrustChange(now, fact.trust, new, reason)
    return replace(fact, trust=new, updated=now, history=(*fact.history, step)[-HISTORY:])


def highest_praise(scopes: Collection[str], reviewed: float, step: float) -> float:
    """As far as a caller's praise may raise a fact: below the trust of a reviewed one, unless the caller may review."""
    return 1.0 if "review" in scopes else reviewed - step


def check_trust(trust: float) -> float:
    """The trust; an error if it is not within 0..1."""
    if not (isfinite(trust) and 0 <= trust <= 1):
        raise InputError(f"trust is {trust}; it must be within 0..1")
    return float(trust)


def judge_recalled(
    found: Iterable[tuple[Candidate, float]], *, min_trust: float | None, limit: int | None
) -> Iterator[Candidate]:
    """What was recalled, with the trust in each: the first `limit` that are trusted stay, the others are dropped."""
    kept = 0
    for candidate, trust in found:
        if candidate.dropped:
            yield candidate
        elif min_trust is not None and trust < min_trust:
            yield candidate.with_note(
                Stage.MEMORY, Fate.DROP, NoteCode.LOW_TRUST, trust=trust, min_trust=min_trust
            )
        elif limit is not None and kept >= limit:
            yield candidate.with_note(Stage.MEMORY, Fate.DROP, NoteCode.BEYOND_LIMIT, limit=limit)
        else:
            kept += 1
            yield candidate


def unique_names(*groups: Iterable[str]) -> tuple[str, ...]:
    """The names of all groups in order, each once, letter case aside."""
    seen: dict[str, str] = {}
    for name in chain(*groups):
        seen.setdefault(name.lower(), name)
    return tuple(seen.values())


def _entities(content: str) -> tuple[str, ...]:
    return entities(content, language_of(content))


def _labels(texts: Iterable[str]) -> tuple[str, ...]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"tags are {type(texts).__name__}, not a list of texts")
    labels = list(islice(texts, MOST_LABELS + 1))
    if len(labels) > MOST_LABELS:
        raise LimitError(f"a fact has at most {MOST_LABELS} tags", hint="leave some out")
    return unique_names(filter(None, (_clean(label, LABEL_CHARS) for label in labels)))


def _clean(text: str, most: int) -> str:
    """One line, without control characters and without what UTF-8 cannot hold."""
    if not isinstance(text, str):
        raise InputError(f"a fact is made of text, not {type(text).__name__}")
    if len(text) > most:
        raise LimitError(
            f"a text of the fact has {len(text):,} characters; at most {most:,} are kept",
            hint="shorten it, add it as a document, or raise facts.fact_chars",
        )
    shown = "".join(c if c.isprintable() or c.isspace() else " " for c in text)
    return " ".join(shown.encode("utf-8", "replace").decode().split())


def _not_found(id: str) -> NotFound:
    return NotFound(f"no fact has the id {id!r}", hint="`millgate facts list` lists them")
