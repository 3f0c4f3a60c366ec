"""FactIndex: the facts of a tenant in memory, found by their words, kept up to date by the store's fact feed.

relevance(q, f) = Σ idf(t)·s(t, f) / Σ idf(t) over the terms t of q, clamped to 1, where s is BM25's saturation
tf·(k+1) / (tf + k·(1 − b + b·len/avg)): a fact of average length that holds every term once has relevance 1.
Terms that no fact holds count in the lower sum, so one shared word of ten is worth little.

A fact is read in its own language, and a query in that of each fact it is compared with: few words do not tell theirs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock

from millgate.protocols import FactStore
from millgate.rank.lexical import K1, B, idf, saturate
from millgate.text.languages import detect_all
from millgate.text.terms import terms
from millgate.types import Fact, fact_key

ENOUGH_FACTS = 1_000  # found; from then on commoner terms add to their scores and find no others
QUERY_TERMS = 64  # distinct terms of a query that are looked up; a pasted page is not a question

_Postings = defaultdict[int, dict[str, int]]


class FactIndex:
    """The facts of one tenant. Every reading call first catches up with the store."""

    def __init__(self, store: FactStore, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._lock = Lock()
        self._seen = 0
        self._facts: dict[str, Fact] = {}
        self._terms: dict[str, tuple[int, ...]] = {}
        self._languages: dict[str, str] = {}
        # language -> term -> fact -> how often it has the term
        self._postings: defaultdict[str, _Postings] = defaultdict(lambda: defaultdict(dict))
        self._by_content: dict[str, str] = {}
        self._lengths: dict[str, int] = {}
        self._total_length = 0

    def facts(self) -> list[Fact]:
        """All facts, by id."""
        with self._lock:
            self._catch_up()
            return [self._facts[id] for id in sorted(self._facts)]

    def same_fact(self, content: str) -> Fact | None:
        """The fact with this content, letter case and closing stops aside."""
        with self._lock:
            self._catch_up()
            id = self._by_content.get(fact_key(content))
            return self._facts[id] if id else None

    def search(self, query: str) -> list[tuple[Fact, float]]:
        """Facts that share a term with the query, and their relevance, in no order."""
        with self._lock:
            self._catch_up()
            if not self._facts:
                return []
            return [hit for language in self._postings for hit in self._search_in(language, query)]

    def _search_in(self, language: str, query: str) -> Iterator[tuple[Fact, float]]:
        """What is found among the facts of a language."""
        postings = self._postings[language]
        query_terms = list(dict.fromkeys(terms(query, language)))[:QUERY_TERMS]
        held = idf(len(self._facts), [len(postings.get(t, ())) for t in query_terms])
        weights = dict(zip(query_terms, held.tolist(), strict=True))
        total = sum(weights.values())
        for id, score in self._scores(postings, weights).items():
            yield self._facts[id], min(1.0, score / total)

    def _scores(self, postings: "_Postings", weights: Mapping[int, float]) -> dict[str, float]:
        """Σ idf·saturation of each fact found, rarest terms first."""
        mean = self._total_length / max(len(self._facts), 1)
        scores: dict[str, float] = {}
        for term in sorted(weights, key=lambda t: len(postings.get(t, ()))):
            weight, held = weights[term], postings.get(term, {})
            found = held if len(scores) < ENOUGH_FACTS else [id for id in scores if id in held]
            for id in found:
                damping = K1 * (1 - B + B * (self._lengths[id] / mean))
                gain = weight * saturate(held[id], damping, K1 + 1)
                scores[id] = scores.get(id, 0.0) + gain
        return scores

    def _catch_up(self) -> None:
        changes = self._store.fact_changes(self._tenant, self._seen)
        # together, which is ten times as fast as one by one
        languages = iter(detect_all([change.fact.content for change in changes if change.fact]))
        for change in changes:
            former = self._facts.pop(change.id, None)
            language = next(languages) if change.fact else ""
            if change.fact and former and _text(change.fact) == _text(former):
                self._facts[change.id] = change.fact  # the words are the same, so the postings stay
            else:
                if former:
                    self._remove(former)
                if change.fact:
                    self._insert(change.fact, language)
            self._seen = change.seq

    def _insert(self, fact: Fact, language: str) -> None:
        counts = Counter(terms(_text(fact), language))
        self._facts[fact.id] = fact
        self._terms[fact.id] = tuple(counts)
        self._languages[fact.id] = language
        self._by_content[fact_key(fact.content)] = fact.id
        self._lengths[fact.id] = counts.total()
        self._total_length += counts.total()
        postings = self._postings[language]
        for term, count in counts.items():
            postings[term][fact.id] = count

    def _remove(self, fact: Fact) -> None:
        self._total_length -= self._lengths.pop(fact.id)
        if self._by_content.get(fact_key(fact.content)) == fact.id:
            del self._by_content[fact_key(fact.content)]
        postings = self._postings[self._languages.pop(fact.id)]
        for term in self._terms.pop(fact.id):
            del postings[term][fact.id]
            if not postings[term]:
                del postings[term]


def unique_names(*groups: Iterable[str]) -> tuple[str, ...]:
    """The names of all groups in order, each once, letter case aside."""
    seen: dict[str, str] = {}
    for group in groups:
        for name in group:
            seen.setdefault(name.lower(), name)
    return tuple(seen.values())


def _text(fact: Fact) -> str:
    extra = () if fact.category == "general" else (fact.category,)
    return " ".join((fact.content, *fact.tags, *extra))
