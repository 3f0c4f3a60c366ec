"""Confidence: how sure the collection is to hold what a query asks for, and which chunk carries it.

    confidence(d) = knows(q) * support(d) / support(best)
knows is a logistic model over how well the ten best candidates cover the query (terms weighed by rarity, phrases,
names, and names or terms that the whole collection has never seen); support one over a chunk's own coverage, score
and rank. So the best chunk's confidence is the calibrated chance that the question is asked in the right place.
In a small collection statistics say little, and the plain share of query terms found takes their place.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from headgate.rank.calibration import (
    CONVERSATION,
    DOCUMENTS,
    SUPPORT_CONVERSATION,
    SUPPORT_DOCUMENTS,
)
from headgate.text.terms import terms
from headgate.types import Candidate

if TYPE_CHECKING:
    import numpy.typing as npt

LOOK = 10  # candidates that tell whether the collection knows
FEW, ENOUGH = 50, 300  # chunks: below FEW no statistics, from ENOUGH on nothing else
_CAPITAL = re.compile(r"(?<=\S\s)[^\W\d_a-z][\w'\u2019-]+")  # a capitalized word that opens no text


class Vocabulary(Protocol):
    """What a collection knows of words: how many chunks there are, and how many hold a term."""

    @property
    def count(self) -> int:
        """How many chunks there are."""
        ...

    @property
    def conversational(self) -> bool:
        """Whether the chunks are lines of a conversation."""
        ...

    @property
    def language(self) -> str:
        """The language whose stems its terms are."""
        ...

    def frequencies(self, terms: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.int64]":
        """How many chunks hold each term."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A query in the light of a collection: its terms, what each is worth, which are names, which are neighbors."""

    worth: dict[int, float]  # term -> rarity in the collection, the highest for one never seen
    unseen: frozenset[int]
    names: frozenset[int]
    pairs: dict[tuple[int, int], float]
    shares: dict[int, float]  # name -> share of the chunks that hold it
    full: float  # the rarity of a term never seen

    @property
    def total(self) -> float:
        """The worth of all terms together."""
        return sum(self.worth.values()) or 1.0


@dataclass(frozen=True, slots=True)
class Match:
    """What one candidate holds of a question."""

    held: frozenset[int]
    mass: float
    phrase: float
    titled: float


def confidences(
    query: str,
    candidates: Sequence[Candidate],
    words: Vocabulary,
    *,
    found: Sequence[Candidate] = (),
) -> list[float]:
    """A confidence in 0..1 for each candidate, in their order.

    `found` is the collection's ranking, of which candidates may be only a part. What came from elsewhere, as from
    memory, may know what the collection does not, so it is heard by itself.
    """
    if not candidates:
        return []
    question = ask(query, words)
    matches = [match(question, c, words.language) for c in candidates]
    ranking = _ranking(candidates)
    backing = supports(question, candidates, matches, ranking, conversational=words.conversational)
    ours = {c.chunk.id for c in found} or {c.chunk.id for c in candidates}
    marks = [0.0] * len(candidates)
    for own in (True, False):
        group = [at for at in ranking if (candidates[at].chunk.id in ours) is own]
        heard = [matches[at] for at in group]
        if own and found:
            heard = [match(question, found[at], words.language) for at in _ranking(found)[:LOOK]]
        sure = knows(question, heard[:LOOK], words)
        top = max((backing[at] for at in group), default=1.0)
        for at in group:
            marks[at] = min(1.0, sure * backing[at] / top)
    return marks


def _ranking(candidates: Sequence[Candidate]) -> list[int]:
    return sorted(range(len(candidates)), key=lambda at: (-candidates[at].score, at))


def ask(query: str, words: Vocabulary) -> Question:
    """The query's terms with their worth in this collection."""
    asked = terms(query, words.language)
    keys = list(dict.fromkeys(asked))
    seen = words.frequencies(np.array(keys, np.uint64)).tolist() if keys else []
    n = words.count
    worth = {key: _rarity(n, df) for key, df in zip(keys, seen, strict=True)}
    named = {t for word in _CAPITAL.findall(query) for t in terms(word, words.language)}
    names = frozenset(named & worth.keys())
    held = dict(zip(keys, seen, strict=True))
    return Question(
        worth=worth,
        unseen=frozenset(key for key in keys if not held[key]),
        names=names,
        pairs={(a, b): worth[a] + worth[b] for a, b in pairwise(asked) if a != b},
        shares={key: held[key] / max(n, 1) for key in names},
        full=_rarity(n, 0),
    )


def match(question: Question, candidate: Candidate, language: str) -> Match:
    """What a candidate's title and text hold of the question."""
    text, title = candidate.chunk.text, candidate.chunk.title
    body = _terms(text, language)
    head = _terms(title, language) if title else ()
    worth = question.worth
    held = frozenset(term for term in (*head, *body) if term in worth)
    both = {p for p in question.pairs if p[0] in held and p[1] in held}
    near = both and both & ({*pairwise(body)} | {*pairwise(head)})
    titled = sum(worth[t] for t in set(head)) if head and held.issuperset(head) else 0.0
    return Match(
        held,
        mass=sum(worth[term] for term in held),
        phrase=sum(question.pairs[pair] for pair in near or ()),
        titled=titled,
    )


def knows(question: Question, best: Sequence[Match], words: Vocabulary) -> float:
    """The chance that the collection holds what is asked, from its best candidates."""
    weights = CONVERSATION if words.conversational else DOCUMENTS
    modeled = _logistic(weights, evidence(question, best))
    trust = min(1.0, max(0.0, (words.count - FEW) / (ENOUGH - FEW)))
    if trust == 1.0:
        return modeled
    # 3 of 10 query terms found is even odds; half of them is 5 to 1.
    hits = max((len(one.held) for one in best), default=0)
    plain = 1 / (1 + math.exp(-8 * (hits / max(1, len(question.worth)) - 0.3)))
    return trust * modeled + (1 - trust) * plain


def evidence(question: Question, best: Sequence[Match]) -> dict[str, float]:
    """How well the best candidates cover the question, each number 0..1; the features of `knows`."""
    total, full = question.total, question.full
    # What came from memory or the web may hold words that the collection has never seen.
    unseen = question.unseen.difference(*(one.held for one in best))
    asked, names = len(question.worth), question.names
    covers = sorted((one.mass / total for one in best), reverse=True)
    counts = sorted((len(one.held) for one in best), reverse=True)
    hits = counts[0] if counts else 0
    phrase = max((one.phrase for one in best), default=0.0)
    rarest = set(sorted(question.worth, key=lambda t: (-question.worth[t], t))[:3])
    worth = question.worth
    name_worth = sum(worth[t] for t in names)
    name_held = [one.held & names for one in best]
    return {
        "bias": 1.0,
        "unseen": min(len(unseen), 3) / 3,
        "strangers": len(unseen & names) / max(1, len(names)),
        "cover": covers[0] if covers else 0.0,
        "covers": sum(covers[:5]) / max(1, len(covers[:5])),
        "hits": min(hits, 6) / 6,
        "share": hits / max(1, asked),
        "third": min(counts[2], 6) / 6 if len(counts) > 2 else 0.0,
        "foreign": total / max(1, asked) / full,
        "nameless": float(not names),
        "names": max((sum(worth[t] for t in h) for h in name_held), default=0.0)
        / (name_worth or 1.0),
        "anchor": max((min(1.0, share / 0.1) for share in question.shares.values()), default=0.0),
        "phrase": min(phrase / full, 3) / 3,
        "phrases": phrase / (sum(question.pairs.values()) or 1.0),
        "rarest": max((len(one.held & rarest) for one in best), default=0) / max(1, len(rarest)),
        "titled": min(max((one.titled for one in best), default=0.0) / full, 2) / 2,
        "rare_name": max((worth[t] for h in name_held for t in h), default=0.0) / full,
    }


def supports(
    question: Question,
    candidates: Sequence[Candidate],
    matches: Sequence[Match],
    ranking: Sequence[int],
    *,
    conversational: bool,
) -> list[float]:
    """The chance of each candidate to be evidence, were the question answerable; never 0."""
    weights = SUPPORT_CONVERSATION if conversational else SUPPORT_DOCUMENTS
    rows = backing(question, candidates, matches, ranking)
    return [max(1e-6, _logistic(weights, row)) for row in rows]


def backed(query: str, candidates: Sequence[Candidate], words: Vocabulary) -> dict[str, float]:
    """Each candidate's support over that of the best, by id: a second opinion on the order of a ranking."""
    if not candidates:
        return {}
    question = ask(query, words)
    matches = [match(question, c, words.language) for c in candidates]
    found = supports(
        question, candidates, matches, _ranking(candidates), conversational=words.conversational
    )
    top = max(found)
    return {c.chunk.id: one / top for c, one in zip(candidates, found, strict=True)}


def backing(
    question: Question,
    candidates: Sequence[Candidate],
    matches: Sequence[Match],
    ranking: Sequence[int],
) -> list[dict[str, float]]:
    """What speaks for each candidate: score, rank, gap to the next, coverage; the features of `supports`."""
    top = max(candidates[ranking[0]].score, 1e-9)
    widest = max((one.mass for one in matches), default=0.0) or 1.0
    phrases = sum(question.pairs.values()) or 1.0
    rows: list[dict[str, float]] = [{} for _ in candidates]
    for place, at in enumerate(ranking):
        score = candidates[at].score / top
        after = candidates[ranking[place + 1]].score / top if place + 1 < len(ranking) else 0.0
        rows[at] = {
            "bias": 1.0,
            "score": score,
            "rank": math.log1p(place),
            "cover": matches[at].mass / widest,
            "share": len(matches[at].held) / max(1, len(question.worth)),
            "phrases": matches[at].phrase / phrases,
            "gap": score - after,
        }
    return rows


def _logistic(weights: dict[str, float], features: dict[str, float]) -> float:
    logit = sum(weight * features[name] for name, weight in weights.items())
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


def _rarity(n: int, df: int) -> float:
    return math.log1p((max(n, df) - df + 0.5) / (df + 0.5))


@lru_cache(maxsize=10_000)
def _terms(text: str, language: str) -> tuple[int, ...]:
    """The terms of a text, remembered, since chunks come back request after request."""
    return tuple(terms(text, language))
