"""Confidence: how sure the collection is to hold what a query asks for, and which chunk carries it.

    confidence(d) = knows(q) * score(d) / score(best)

knows is a logistic model with one set of constants for every kind of text. It rises with the share of the query that
the best chunk holds (terms weighed by idf), and if query terms stand side by side. It falls with the share of query
terms that the collection has never seen, and with its size, since among many chunks some match by chance. An unseen
term says less if fitting texts often bring new ones. It says nothing in JSON: the values of a call do not stand in its
description. The name of a speaker is common in a conversation and rare elsewhere, and so is the topic of a collection,
a term in more than half of its chunks: each counts as much as a term can. Words cannot judge what only an embedder
found.
"""

import math
from collections.abc import Sequence

import numpy as np

from headgate.protocols import Snapshot
from headgate.rank.lexical import within
from headgate.relevance.query_terms import Match, Question, match, match_known
from headgate.text.languages import likeness_to_code
from headgate.types import Candidate

# The constants of `knows`: is the question asked in the right place? Ridge logistic regression over questions asked in
# their own collection and in those of other sets, each set weighing the same.
# `make bench-fit_grade ARGS="DIR ..."` fits it anew and prints how it judges sets that it has not seen.
KNOWS = {
    "bias": -0.08,
    "cover": 8.04,
    "phrase": 3.33,
    "unseen": -5.11,
    "size": -4.65,
    "symbols": 0.6,
}
# Confidence from which an answer is correct, and below which it is refused; docs/figures.md, "The grader", has what
# other lower bounds refuse
UPPER, LOWER = 0.5, 0.08
LOOK = 10  # best candidates that `knows` looks at; its constants were fitted with ten
# Shares of a question say little if it has more than LONG terms, or at most SHORT of which a candidate holds one; it is
# not refused then. One of two words is half of a question, but the other is often only another form of a word in the
# text. The questions of the labeled sets have up to 31 terms.
SHORT, LONG = 2, 40
_FULL_SIZE = 4  # log10 of the chunks at which "size" is 1: the fit's unit, not a bound
_MOST_UNSEEN = 0.5  # unseen rates are cut here: in a handful of chunks nearly every term is new
_TOPIC = math.log(2)  # the idf of a term in half of the chunks
_FULL_PHRASE = 3  # idfs of an unseen term, beyond which more of a phrase counts no more


def confidences(
    question: Question,
    candidates: Sequence[Candidate],
    words: Snapshot,
    *,
    found: Sequence[Candidate] = (),
    seen: Sequence[Candidate] = (),
) -> list[float]:
    """A confidence in 0..1 for each candidate, in their order.

    `found` is the collection's ranking, of which candidates may be only a part, and `seen` what of it the window shows
    already. What came from elsewhere, as from memory, may know what the collection does not, so it is heard by itself.
    """
    ours = {c.chunk.id for c in found} or {c.chunk.id for c in candidates}
    marks = [0.0] * len(candidates)
    for own in (True, False):
        group = [at for at, c in enumerate(candidates) if (c.chunk.id in ours) is own]
        if not group:
            continue
        members = [candidates[at] for at in group]
        best = sorted(members, key=lambda c: -c.score)[:LOOK]
        best += seen[:LOOK] if own else ()
        matches = match_known(question, [c.chunk for c in best], words)
        sure = knows(evidence(question, matches, [c.chunk.text for c in best], words))
        if not has_enough_terms_to_refuse(question, matches):
            sure = max(sure, LOWER)
        for at, share in zip(group, _shares(question, members, words.language), strict=True):
            marks[at] = sure * share
    return marks


def has_enough_terms_to_refuse(question: Question, best: Sequence[Match]) -> bool:
    """Whether shares of the question's terms can tell against candidates: one or two terms of which they hold one
    cannot, nor can very many.
    """
    terms = len(question.term_weight)
    return terms <= LONG and not (terms <= SHORT and any(one.held for one in best))


def knows(features: dict[str, float]) -> float:
    """The chance that the collection holds what is asked, from the features of its best candidates."""
    logit = sum(weight * features[name] for name, weight in KNOWS.items())
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


def evidence(
    question: Question, best: Sequence[Match], texts: Sequence[str], words: Snapshot
) -> dict[str, float]:
    """How well the best candidates cover the question, each number 0..1; the features of `knows`."""
    # What came from memory or the web may hold words that the collection has never seen.
    unseen = question.unseen.difference(*(one.held for one in best))
    # what an unseen term says
    unseen_share = 1 - min(words.unseen_rate, _MOST_UNSEEN) if unseen else 1.0
    topics = {key for key, weight in question.term_weight.items() if weight < _TOPIC}
    known = _speakers(question, words) | topics
    weights = {
        key: (question.full if key in known else weight) * (unseen_share if key in unseen else 1.0)
        for key, weight in question.term_weight.items()
    }
    held = max((sum(map(weights.__getitem__, one.held)) for one in best), default=0.0)
    phrase = max((one.phrase for one in best), default=0.0) / question.full
    code = likeness_to_code(texts)
    return {
        "bias": 1.0,
        "cover": held / (sum(weights.values()) or 1.0),
        "phrase": min(phrase, _FULL_PHRASE) / _FULL_PHRASE,
        "unseen": len(unseen) / max(1, len(weights)) * unseen_share * (1 - code),
        "size": math.log10(max(words.count, 1)) / _FULL_SIZE,
        "symbols": code,
    }


def _speakers(question: Question, words: Snapshot) -> frozenset[int]:
    """The terms of the question that name someone who speaks in the collection."""
    if not words.conversational:
        return frozenset()
    asked = np.array(sorted(question.asked), np.uint64)
    return frozenset(asked[within(words.speakers(), asked)].tolist())


def _shares(question: Question, members: Sequence[Candidate], language: str) -> list[float]:
    """Each candidate's score over the highest; where all are equal, as with strips of one chunk, what each holds
    decides.
    """
    scores = [c.score if math.isfinite(c.score) and c.score > 0 else 0.0 for c in members]
    if len(set(scores)) == 1:
        scores = [one.term_weight for one in match(question, [c.chunk for c in members], language)]
    top = max(scores)
    return [score / top if top else 1.0 for score in scores]
