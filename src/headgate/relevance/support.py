"""Support: the chance of each candidate to be part of the answer, were the question answerable at all.

A logistic model over the ranking (score, log rank, gap to the next) and over what the ranking does not weigh:
  lines of a conversation    do they hold the query's names, do they speak of time, how rare are their words
  chunks linked by names     what they hold of the query that better ones do not, are they linked themselves
  chunks without such links  how many rare words they share with the five best
Where names link the chunks, an answer has several different parts; where nothing does, its parts are alike.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from headgate.notes import Stage
from headgate.relevance.calibration import SUPPORT
from headgate.relevance.cues import timed
from headgate.relevance.query_terms import Question, Vocabulary, bag, holds, rarities
from headgate.types import Candidate

Floats = npt.NDArray[np.float64]

LEADS = 10  # best candidates whose hold on the query counts as there already
DEPTH = 40  # best candidates that are read for news; lower ones hardly have any that help
KIN = 5  # best candidates that others are compared with
NEW = 0.3  # share of the query's worth from which more news count no more
_MOST = 1e9  # a score beyond is no score of ours; its square must still be a number
LINKED = 0.05  # gain by propagation from which more counts no more


def support(question: Question, candidates: Sequence[Candidate], words: Vocabulary) -> list[float]:
    """The chance of each candidate, in their order; never 0."""
    if not candidates:
        return []
    kind, columns = clues(question, candidates, words)
    logit = np.zeros(len(candidates))
    for name, weight in SUPPORT[kind].items():
        logit += weight * columns[name]
    chances: list[float] = (1 / (1 + np.exp(-np.clip(logit, -14, 30)))).tolist()
    return chances


def clues(
    question: Question, candidates: Sequence[Candidate], words: Vocabulary
) -> tuple[str, dict[str, Floats]]:
    """The kind of the candidates, and the columns of what speaks for each."""
    scores = np.nan_to_num([c.score for c in candidates], posinf=0.0, neginf=0.0)
    scores = np.clip(scores, 0.0, _MOST)
    if (
        scores == scores[0]
    ).all():  # no ranking, as with strips of one chunk: what they hold ranks them
        held = [holds(question, c.chunk, words.language) for c in candidates]
        scores = np.array([question.sum(terms) for terms in held])
    order = np.argsort(-scores, kind="stable")
    share = scores / max(float(scores.max()), 1e-9)
    rank, gap = np.empty(len(share)), np.empty(len(share))
    rank[order] = np.log1p(np.searchsorted(-share[order], -share[order]))  # equals share a rank
    gap[order] = share[order] - np.append(share[order[1:]], share[order[-1]])
    columns = {"bias": np.ones(len(share)), "score": share, "rank": rank, "gap": gap}
    if words.conversational:
        return "lines", columns | _lines(question, candidates, words)
    gains = np.array([_gain(c) for c in candidates])
    if gains.any():
        new = _news(question, candidates, order[:DEPTH].tolist(), words.language)
        return "linked", columns | {"new": new, "linked": np.minimum(gains / LINKED, 1.0)}
    return "alike", columns | {"kin": _kin(candidates, order.tolist(), share, words)}


def _gain(candidate: Candidate) -> float:
    """What propagation added to its score."""
    return candidate.number(Stage.PROPAGATE, "gain") or 0.0


def _lines(
    question: Question, candidates: Sequence[Candidate], words: Vocabulary
) -> dict[str, Floats]:
    bags = [bag(c.chunk, words.language) for c in candidates]
    rare = rarities(list(frozenset().union(*bags)), words)
    names = question.names
    return {
        "names": np.array([len(names & held) / max(1, len(names)) for held in bags]),
        "timed": np.array([float(timed(c.chunk.text)) for c in candidates]),
        "rarity": np.array([sum(map(rare.__getitem__, b)) / max(1, len(b)) for b in bags]),
    }


def _news(
    question: Question, candidates: Sequence[Candidate], order: Sequence[int], language: str
) -> Floats:
    """The share of the query's worth in each that the leads above it do not hold, as far as it counts."""
    told: frozenset[int] = frozenset()
    news, most = np.zeros(len(candidates)), NEW * question.total
    for place, at in enumerate(order):
        held = holds(question, candidates[at].chunk, language)
        news[at] = min(question.sum(held - told) / most, 1.0)
        if place < LEADS:
            told |= held
    return news


def _kin(
    candidates: Sequence[Candidate], order: Sequence[int], share: Floats, words: Vocabulary
) -> Floats:
    """How much each has in common with the best (a best one: with the others), over the highest."""
    bags = [bag(c.chunk, words.language) for c in candidates]
    best = order[:KIN]
    leads = frozenset().union(*(bags[at] for at in best))
    rare = {key: value**2 for key, value in rarities(list(leads), words).items()}
    weight = dict.fromkeys(leads, 0.0)
    kin = np.zeros(len(candidates))
    for at in best:
        force = share[at] ** 2 / sqrt(len(bags[at]) or 1)
        for term in bags[at]:
            weight[term] += force * rare[term]
        kin[at] = -force * sum(map(rare.__getitem__, bags[at]))  # what it has in common with itself
    for at, mine in enumerate(bags):
        kin[at] += sum(map(weight.__getitem__, mine & leads))
        kin[at] /= sqrt(len(mine) or 1)
    return kin / max(float(kin.max()), 1e-9)
