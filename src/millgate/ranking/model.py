"""The model of relevance: how likely a chunk is evidence for a query. Packing, the cut and the grade read it.

    p(chunk) = knows(query) * holds(chunk)

1. `share` says which of the chunks it is, if any: a softmax over the ranking, of which the parts add up to 1.
2. `holds` is the chance that a chunk is evidence, if the collection holds any: a logistic regression.
3. `knows` is the chance that the collection holds what is asked at all: another one.

| feature | what it is | share | holds | knows |
|---|---|---|---|---|
| score | the ranking's score (score.py) over that of the best chunk | yes | | |
| log_score | the logarithm of the same | yes | | |
| share | the chunk's share of the expected evidence, from step 1 | | yes | |
| log_share | the logarithm of the same | | yes | |
| phrase | query terms side by side in one of the best ten chunks, in idfs | | yes | yes |
| size | the logarithm of the collection's size: among many chunks some match by chance | | yes | yes |
| cover | the share of the query's weight that one of the best ten chunks holds | | | yes |
| unseen | the share of the query's terms that the collection has never seen | | | yes |
| symbols | how much the best ten look like code | | | yes |

The weights are in weights.json, with the sets they were fitted on, the date, and figures of sets left out.
`millgate eval fit DIR` fits them anew, on your own labeled questions too. What a title, a phrase, a shared name or a
speaker adds is in the score (docs/retrieval.md): fitted one by one beside it, they order sets left out no better.

An unseen term says less if fitting texts often bring new ones. It says nothing in JSON: the values of a call do not
stand in its description. The name of a speaker is common in a conversation and rare elsewhere, and so is the topic of a
collection, a term in more than half of its chunks: each counts as much as a term can.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from millgate.errors import ConfigError
from millgate.protocols import Snapshot
from millgate.ranking.arrays import Floats
from millgate.ranking.question import Match, Question, match_known
from millgate.ranking.score import idf
from millgate.text.bounded_json import describe_json_error
from millgate.text.hashes import within
from millgate.text.languages import likeness_to_code
from millgate.types import SIDE_SOURCES, WEB, Candidate

SHARE: Final = ("score", "log_score")
HOLDS: Final = ("bias", "log_share", "share", "phrase", "size")
KNOWS: Final = ("bias", "cover", "phrase", "unseen", "size", "symbols")
ELSEWHERE: Final = SIDE_SOURCES | {WEB}
SHIPPED: Final = Path(__file__).with_name("weights.json")
LOOK = 10  # best candidates that `knows` looks at; its weights were fitted with ten
# Shares of a question say little if it has more than LONG terms, or at most SHORT of which a candidate holds one; it is
# not refused then. One of two words is half of a question, but the other is often only another form of a word in the
# text. The questions of the labeled sets have up to 31 terms.
SHORT, LONG = 2, 40
_LEAST_SCORE = 0.02  # added before the logarithm, so that a score of 0 has one
_FULL_SIZE = 4  # log10 of the chunks at which "size" is 1: the fit's unit, not a bound
_MOST_UNSEEN = 0.5  # unseen rates are cut here: in a handful of chunks nearly every term is new
_TOPIC = math.log(2)  # the idf of a term in half of the chunks
_TINY = 1e-6  # for what must not be 0
_FULL_PHRASE = 3  # idfs of an unseen term, beyond which more of a phrase counts no more


@dataclass(frozen=True, slots=True)
class Model:
    """The weights of the three steps, and the chances at which verdicts divide.

    A question is refused if `knows` is below `lower`. An answer is correct if it holds evidence with a chance of
    `upper` or more.
    """

    share: Mapping[str, float]
    holds: Mapping[str, float]
    knows: Mapping[str, float]
    lower: float
    upper: float = 0.5
    about: Mapping[str, Any] = field(default_factory=dict, compare=False)  # sets, date, figures

    def shares(self, scores: Floats) -> Floats:
        """The share of the expected evidence of each chunk of a ranking, given its scores over the best."""
        logits = score_features(scores) @ [self.share[name] for name in SHARE]
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum(), np.float64)

    def chances_held(self, features: Mapping[str, float], shares: Floats) -> Floats:
        """For each share, the chance that its chunk is evidence, if the collection holds any."""
        return _sigmoid(share_features(features, shares) @ [self.holds[name] for name in HOLDS])

    def chance_known(self, features: Mapping[str, float]) -> float:
        """The chance that the collection holds what is asked."""
        return float(_sigmoid(sum(self.knows[name] * features[name] for name in KNOWS)))


def score_features(scores: Floats) -> Floats:
    """The features of `share`, a row for each chunk, in the order of SHARE."""
    return np.column_stack([scores, np.log(scores + _LEAST_SCORE)])


def share_features(features: Mapping[str, float], shares: Floats) -> Floats:
    """The features of `holds`, a row for each chunk, in the order of HOLDS."""
    same = np.ones(len(shares))
    return np.column_stack(
        [same, np.log(shares + _TINY), shares, same * features["phrase"], same * features["size"]]
    )


@cache
def read_model(file: Path | str = "") -> Model:
    """The model in a file, or the shipped one. A process reads a file once."""
    path = Path(file or SHIPPED)
    try:
        data = json.loads(path.read_text("utf-8"))
        share, holds, knows = (
            {name: float(data[part][name]) for name in names}
            for part, names in (("share", SHARE), ("holds", HOLDS), ("knows", KNOWS))
        )
        lower, upper = float(data["lower"]), float(data["upper"])
    except OSError as error:
        raise ConfigError(f"the weights in {path} cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        reason = describe_json_error(error)
        raise ConfigError(f"the weights in {path} are not JSON ({reason})") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the weights in {path} lack or misspell {error}",
            hint="make the file with: millgate eval fit DIR --out FILE",
        ) from error
    weights = (*share.values(), *holds.values(), *knows.values())
    if not all(map(math.isfinite, weights)) or not 0 <= lower <= upper <= 1:
        raise ConfigError(f"the weights in {path} are not finite, or its bounds are out of order")
    about = {name: data[name] for name in data if name not in {"share", "holds", "knows"}}
    return Model(share, holds, knows, lower, upper, about)


class Chance(NamedTuple):
    """How likely one candidate is evidence: the chance that its collection knows, and its own if so.

    `evidence_share` is its part of all the evidence that is expected in the ranking. What the window shows already
    counts there too, so the shares of the others do not add up to 1. `held_weight` is how much of the question one of
    the best candidates holds, in weights of a term that one chunk has; less is asked of a small collection.
    """

    known: float
    held: float
    evidence_share: float
    held_weight: float = 0.0

    @property
    def confidence(self) -> float:
        """The chance that the candidate is evidence."""
        return self.known * self.held


def chances(
    question: Question,
    candidates: Sequence[Candidate],
    words: Snapshot,
    *,
    seen: Sequence[Candidate] = (),
    embedded: bool = False,
    model: Model | None = None,
) -> list[Chance]:
    """How likely each candidate is evidence, in their order.

    `seen` is what the window shows already of the collection's ranking, which is evidence for the collection too. What
    came from elsewhere, from memory, the graph or the web, may know what the collection does not, so it is heard by
    itself. With `embedded`, an embedder had a part in the ranking: words cannot
    refuse what a vector found.
    """
    model = model or read_model()
    made: dict[int, Chance] = {}
    for own in (True, False):
        group = [at for at, c in enumerate(candidates) if (c.chunk.source in ELSEWHERE) is not own]
        if not group:
            continue
        members = [candidates[at] for at in group]
        best = sorted(members, key=lambda c: -c.score)[:LOOK] + list(seen[:LOOK] if own else ())
        matches = match_known(question, [c.chunk for c in best], words)
        features = query_features(question, matches, [c.chunk.text for c in best], words)
        weight = features["held_weight"]
        known = model.chance_known(features)
        if embedded or not has_enough_terms_to_refuse(question, matches):
            known = max(known, model.lower)
        ranked = [*members, *(seen if own else ())]
        scores = np.array([ranking_score(c) for c in ranked])
        shares = model.shares(scores / (scores.max() or 1.0))
        held = model.chances_held(features, shares)
        rows = zip(group, held.tolist(), shares.tolist(), strict=False)  # without those seen
        made |= {at: Chance(known, chance, share, weight) for at, chance, share in rows}
    return [made[at] for at in range(len(candidates))]


def evidence_shares(candidates: Sequence[Candidate], found: Sequence[Chance]) -> list[float]:
    """The candidates' shares of the expected evidence; less in collections that are less likely to know.

    Graph paths and remembered facts have a section of their own and are not compared.
    """
    known = [
        0.0 if c.chunk.source in SIDE_SOURCES else one.known
        for c, one in zip(candidates, found, strict=True)
    ]
    most = max(known) or 1.0
    return [one.evidence_share * min(one.known / most, 1.0) for one in found]


def ranking_score(candidate: Candidate) -> float:
    """The score by relevance alone: without what overlap with the window took from it."""
    score = candidate.score
    if compared := _find_comparison(candidate):
        before, after = compared
        score = before * (score / after if after > 0 else 1.0)
    return max(score, 0.0) if math.isfinite(score) else 0.0


def new_part(candidate: Candidate) -> float:
    """What comparing it with the window left of a candidate's score, 0..1."""
    compared = _find_comparison(candidate)
    return min(compared[1] / compared[0], 1.0) if compared else 1.0


def _find_comparison(candidate: Candidate) -> tuple[float, float] | None:
    """The score before and after the comparison with the window; None if there was none, or nothing to lose."""
    notes = candidate.notes
    for at in range(len(notes) - 1, 0, -1):  # it is one of the last
        if "overlap" in notes[at].numbers:
            before = notes[at - 1].score
            return (before, notes[at].score) if before > 0 else None
    return None


def has_enough_terms_to_refuse(question: Question, best: Sequence[Match]) -> bool:
    """Whether shares of the question's terms can tell against candidates: one or two terms of which they hold one
    cannot, nor can very many.
    """
    terms = len(question.term_weight)
    return terms <= LONG and not (terms <= SHORT and any(one.held for one in best))


def query_features(
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
    rare = float(idf(words.count, [1])[0])
    return {
        "bias": 1.0,
        "held_weight": held / rare / min(0.5 + math.log10(words.count + 1) / 4, 1.0),
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


def _sigmoid(logit: npt.ArrayLike) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(logit, -30, 30))), np.float64)
