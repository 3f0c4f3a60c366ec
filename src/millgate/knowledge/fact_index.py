"""FactIndex: the facts of a tenant in memory, found by their words, kept up to date by the store's fact feed.

relevance(q, f) = Σ idf(t)·s(t, f) / Σ idf(t) over the terms t of q, clamped to 1, where s is BM25's saturation
tf·(k+1) / (tf + k·(1 − b + b·len/avg)): a fact of average length that holds every term once has relevance 1.
Terms that no fact holds count in the lower sum, so one shared word of ten is worth little.

A fact is read in its own language, and a query in that of each fact it is compared with: few words do not tell theirs.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

from millgate.protocols import FactStore
from millgate.ranking.score import K1, B, idf, saturate
from millgate.text.languages import detect_all
from millgate.text.terms import terms
from millgate.types import Fact, fact_key

ENOUGH_FACTS = 1_000  # found; from then on commoner terms add to their scores and find no others
QUERY_TERMS = 64  # distinct terms of a query that are looked up; a pasted page is not a question

_Postings = defaultdict[int, dict[str, int]]


@dataclass(slots=True)
class _Entry:
    fact: Fact
    language: str
    counts: Counter[int]


class FactIndex:
    """The facts of one tenant. Every reading call first catches up with the store."""

    def __init__(self, store: FactStore, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._lock = Lock()
        self._seen = 0
        self._entries: dict[str, _Entry] = {}
        # language -> term -> fact -> how often it has the term
        self._postings: defaultdict[str, _Postings] = defaultdict(lambda: defaultdict(dict))
        self._by_content: dict[str, str] = {}
        self._total_length = 0

    def facts(self) -> list[Fact]:
        """All facts, by id."""
        with self._lock:
            self._catch_up()
            return [self._entries[id].fact for id in sorted(self._entries)]

    def same_fact(self, content: str) -> Fact | None:
        """The fact with this content, letter case and closing stops aside."""
        with self._lock:
            self._catch_up()
            id = self._by_content.get(fact_key(content))
            return self._entries[id].fact if id else None

    def search(self, query: str) -> list[tuple[Fact, float]]:
        """Facts that share a term with the query, and their relevance, in no order."""
        with self._lock:
            self._catch_up()
            return [
                (self._entries[id].fact, relevance)
                for language, postings in self._postings.items()
                for id, relevance in self._search_in(postings, terms(query, language)).items()
            ]

    def _search_in(self, postings: _Postings, query_terms: list[int]) -> dict[str, float]:
        """The relevance of the facts of one language, rarest terms first."""
        held = [postings.get(term, {}) for term in [*dict.fromkeys(query_terms)][:QUERY_TERMS]]
        weights = idf(len(self._entries), [*map(len, held)]).tolist()
        total, mean = sum(weights), self._total_length / max(len(self._entries), 1)
        scores: defaultdict[str, float] = defaultdict(float)
        for counts, weight in sorted(zip(held, weights, strict=True), key=lambda pair: len(pair[0])):  # fmt: skip
            for id in counts if len(scores) < ENOUGH_FACTS else scores.keys() & counts.keys():
                length = self._entries[id].counts.total()
                damping = K1 * (1 - B + B * (length / mean))
                scores[id] += weight * saturate(counts[id], damping, K1 + 1)
        return {id: min(1.0, score / total) for id, score in scores.items()}

    def _catch_up(self) -> None:
        changes = self._store.fact_changes(self._tenant, self._seen)
        # together, which is ten times as fast as one by one
        languages = iter(detect_all([change.fact.content for change in changes if change.fact]))
        for change in changes:
            fact, former = change.fact, self._entries.get(change.id)
            language = next(languages) if fact else ""
            if fact and former and _text(fact) == _text(former.fact):
                former.fact = fact  # the words are the same, so the postings stay
            else:
                if former:
                    self._remove(former)
                if fact:
                    self._insert(_Entry(fact, language, Counter(terms(_text(fact), language))))
            self._seen = change.seq

    def _insert(self, entry: _Entry) -> None:
        id = entry.fact.id
        self._entries[id] = entry
        self._by_content[fact_key(entry.fact.content)] = id
        self._total_length += entry.counts.total()
        for term, count in entry.counts.items():
            self._postings[entry.language][term][id] = count

    def _remove(self, entry: _Entry) -> None:
        id, key, postings = entry.fact.id, fact_key(entry.fact.content), self._postings[entry.language]  # fmt: skip
        del self._entries[id]
        if self._by_content.get(key) == id:
            del self._by_content[key]
        self._total_length -= entry.counts.total()
        for term in entry.counts:
            del postings[term][id]
            if not postings[term]:
                del postings[term]


@lru_cache(maxsize=256)
def language_of(text: str) -> str:
    """The language that a fact is read in."""
    return detect_all([text])[0]


def _text(fact: Fact) -> str:
    extra = () if fact.category == "general" else (fact.category,)
    return " ".join((fact.content, *fact.tags, *extra))
