"""Confidence: how sure the collection is to hold what a query asks for, and which chunk carries it.

    confidence(d) = knows(q) * support(d) / support(best)
knows is a logistic model over how well the ten best candidates cover the query (terms weighed by rarity, phrases,
names, titles) and over words or names that the whole collection has never seen; support is relevance/support.py.
So the best chunk's confidence is the calibrated chance that the question is asked in the right place.
In a small collection statistics say little, and the plain share of query terms found takes their place.
"""

import math
from collections.abc import Mapping, Sequence

from headgate.relevance.calibration import KNOWS
from headgate.relevance.query_terms import Match, Question, Vocabulary, ask, match
from headgate.relevance.support import support
from headgate.types import Candidate

LOOK = 10  # candidates that tell whether the collection knows
FEW, ENOUGH = 50, 300  # chunks: below FEW no statistics, from ENOUGH on nothing else


def confidences(
    query: str,
    candidates: Sequence[Candidate],
    words: Vocabulary,
    *,
    found: Sequence[Candidate] = (),
    backing: Mapping[str, float] | None = None,
) -> list[float]:
    """A confidence in 0..1 for each candidate, in their order.

    `found` is the collection's ranking, of which candidates may be only a part, and `backing` the support of those
    for whom it is known already. What came from elsewhere, as from memory, may know what the collection does not,
    so it is heard by itself.
    """
    question = ask(query, words)
    known = backing or {}
    ours = {c.chunk.id for c in found} or {c.chunk.id for c in candidates}
    marks = [0.0] * len(candidates)
    for own in (True, False):
        group = [at for at, c in enumerate(candidates) if (c.chunk.id in ours) is own]
        if not group:
            continue
        members = [candidates[at] for at in group]
        chances = [known.get(c.chunk.id, 0.0) for c in members]
        if not all(chances):
            chances = support(question, members, words)
        heard = found if own and found else members
        best = sorted(heard, key=lambda c: -c.score)[:LOOK]
        sure = knows(question, [match(question, c, words.language) for c in best], words)
        top = max(chances)
        for at, chance in zip(group, chances, strict=True):
            marks[at] = min(1.0, sure * chance / top)
    return marks


def backed(query: str, candidates: Sequence[Candidate], words: Vocabulary) -> dict[str, float]:
    """Each candidate's support over that of the best, by id: a second opinion on the order of a ranking."""
    chances = support(ask(query, words), candidates, words)
    top = max(chances, default=1.0)
    return {c.chunk.id: one / top for c, one in zip(candidates, chances, strict=True)}


def knows(question: Question, best: Sequence[Match], words: Vocabulary) -> float:
    """The chance that the collection holds what is asked, from its best candidates."""
    weights = KNOWS["lines" if words.conversational else "documents"]
    features = evidence(question, best)
    logit = sum(weight * features[name] for name, weight in weights.items())
    modeled = 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))
    trust = min(1.0, max(0.0, (words.count - FEW) / (ENOUGH - FEW)))
    if trust == 1.0:
        return modeled
    # 3 of 10 query terms found is even odds; half of them is 5 to 1.
    hits = max((len(one.held) for one in best), default=0)
    plain = 1 / (1 + math.exp(-8 * (hits / max(1, len(question.worth)) - 0.3)))
    return trust * modeled + (1 - trust) * plain


def evidence(question: Question, best: Sequence[Match]) -> dict[str, float]:
    """How well the best candidates cover the question, each number 0..1; the features of `knows`."""
    full, worth, names = question.full, question.worth, question.names
    # What came from memory or the web may hold words that the collection has never seen.
    unseen = question.unseen.difference(*(one.held for one in best))
    counts = sorted((len(one.held) for one in best), reverse=True) or [0]
    rarest = set(sorted(worth, key=lambda t: (-worth[t], t))[:3])
    named = [one.held & names for one in best]
    return {
        "bias": 1.0,
        "unseen": min(len(unseen), 3) / 3,
        "strangers": len(unseen & names) / max(1, len(names)),
        "cover": max((one.mass for one in best), default=0.0) / question.total,
        "hits": min(counts[0], 6) / 6,
        "share": counts[0] / max(1, len(worth)),
        "third": min(counts[2], 6) / 6 if len(counts) > 2 else 0.0,
        "foreign": question.total / max(1, len(worth)) / full,
        "nameless": float(not names),
        "names": max(map(question.sum, named), default=0.0) / (question.sum(names) or 1.0),
        "anchor": max((min(1.0, share / 0.1) for share in question.shares.values()), default=0.0),
        "phrase": min(max((one.phrase for one in best), default=0.0) / full, 3) / 3,
        "rarest": max((len(one.held & rarest) for one in best), default=0) / max(1, len(rarest)),
        "titled": min(max((one.titled for one in best), default=0.0) / full, 2) / 2,
        "rare_name": max((worth[t] for held in named for t in held), default=0.0) / full,
        "lexical": max((one.lexical for one in best), default=0.0),
    }
