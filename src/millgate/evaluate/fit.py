"""Fit the model of relevance on labeled sets, or on what people said about questions of their own.

Each question of a set is asked in its own set and some questions of other sets are, through retrieve and propagate as
they ship. `share` and `holds` tell the labeled chunks of a ranking from the rest, `knows` a set's own questions from
foreign ones (ranking/model.py). All are ridge regressions by Newton steps, in which each set weighs the same, and in
a set each question. `lower` is the chance of knowing under which one in 400 of the answerable questions would be
refused. With fewer sets than MIN_SETS the weights are drawn toward the shipped ones and not toward 0, since little data
says little about thirteen weights. A set of few questions then weighs as much as it has, and `lower` only falls: a
handful of questions cannot tell what one in 400 is.

Labels may also be what people said about questions of their own (`read_judgments`). A test of `millgate test` names the
chunks that its question needs. A review that a person approved says the same of the chunks that were found for it. A
rejected one says that they are wrong, so its question counts as one that the collection cannot answer. An answered
review says nothing about the chunks: the person wrote something else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from millgate.errors import InputError
from millgate.evaluate.labeled import Labeled, StoredSet, collection_of
from millgate.evaluate.regression import names_chunk, read_cases
from millgate.evaluate.retrieval import Tick, foreign
from millgate.gateway import Millgate
from millgate.pipeline.stages.decide import decide
from millgate.pipeline.stages.propagate import propagate
from millgate.pipeline.stages.retrieve import retrieve
from millgate.ranking.arrays import Floats
from millgate.ranking.model import (
    HOLDS,
    KNOWS,
    LOOK,
    SHARE,
    Model,
    has_enough_terms_to_refuse,
    query_features,
    score_features,
    share_features,
)
from millgate.ranking.question import ask, match_known
from millgate.types import Candidate, Request, Trace, Window

QUESTIONS, FOREIGN = 120, 72  # of a set, and of the other sets in it
MIN_SETS = 4  # with fewer, the weights are drawn toward the shipped ones
REFUSED = 1 / 400  # share of the answerable questions that `lower` may cost, the mean over sets
OWN, REJECTED = (
    "own",
    "rejected",
)  # the set of judgments, and the source of questions that it cannot answer
PARTS = (
    5  # judged questions are parted in so many; each part is judged by weights fitted on the others
)
_SET_WEIGHT = 100.0
_RIDGE = 1.0
_STEPS = 60
_SMALL_STEP = 1e-6


@dataclass(frozen=True, slots=True)
class Asked:
    """One question asked in one set: its features, the scores of the ranking over the best, and which are labeled.

    `telling` says whether the question has enough terms to be refused.
    """

    set: str
    source: str  # the set that the question is from
    features: Mapping[str, float]
    scores: Floats
    labeled: Floats
    telling: bool = True

    @property
    def answerable(self) -> bool:
        """Whether it was asked in its own set."""
        return self.set == self.source


def observe(
    stored: StoredSet,
    others: Sequence[Labeled],
    *,
    most_foreign: int = FOREIGN,
    tick: Tick = lambda: None,
) -> list[Asked]:
    """Ask a set's questions, and some of other sets, in the set."""
    labeled, asked = stored.labeled, list[Asked]()
    with stored.open() as gate:
        for query in labeled.queries:
            labels = labeled.labels[query["_id"]]
            evidence = {*labels}.union(*(stored.copies.get(id, ()) for id in labels))
            place, name = collection_of(query), labeled.name
            ranking = rank(gate, query["text"], place)
            found = [c.chunk.document in evidence for c in ranking]
            asked += describe(gate, query["text"], place, ranking, found, name=name, source=name)
            tick()
        for place, source, text in foreign(labeled, others, most_foreign):
            ranking = rank(gate, text, place)
            nothing = [False] * len(ranking)
            asked += describe(gate, text, place, ranking, nothing, name=labeled.name, source=source)
            tick()
    return asked


def rank(gate: Millgate, text: str, collection: str) -> Sequence[Candidate]:
    """What a collection holds for a question, as the model sees it."""
    view, settings = gate.index(collection), gate.settings
    found = retrieve(text, view, settings.retrieve)
    return propagate(found, text, view, settings.propagate).kept


def describe(
    gate: Millgate,
    text: str,
    collection: str,
    ranking: Sequence[Candidate],
    labeled: Sequence[bool],
    *,
    name: str,
    source: str,
) -> list[Asked]:
    """A question from `source`, asked in the set `name`, with its ranking and labels; nothing if no chunk was found."""
    if not ranking:
        return []
    view = gate.index(collection)
    question, best = ask(text, view), [c.chunk for c in ranking[:LOOK]]
    matches = match_known(question, best, view)
    features = query_features(question, matches, [chunk.text for chunk in best], view)
    scores = np.array([c.score for c in ranking]) / max(c.score for c in ranking)
    telling = has_enough_terms_to_refuse(question, matches)
    return [Asked(name, source, features, scores, np.array(labeled, float), telling)]


# Fitting


def fit(asked: Sequence[Asked], *, start: Model | None = None) -> Model:
    """The weights for these questions; drawn toward those of `start` if there is one, else toward 0."""
    if not any(one.answerable and one.labeled.any() for one in asked):
        raise InputError("no labeled passage was found, so there is nothing to fit")
    few = start is not None
    share, holds, knows = (dict.fromkeys(names, 0.0) for names in (SHARE, HOLDS, KNOWS))
    made = start or Model(share, holds, knows, lower=0.0)
    own = [one for one in asked if one.answerable]
    made = replace(made, share=_fit_shares(own, made.share, few=few))
    weights = _balance([(one.set, True) for one in own], few=few)
    rows = [share_features(one.features, made.shares(one.scores)) for one in own]
    each = [np.full(len(one.scores), w) for one, w in zip(own, weights.tolist(), strict=True)]
    labeled = np.concatenate([one.labeled for one in own])
    x, each_weight = np.vstack(rows), np.concatenate(each)
    made = replace(made, holds=_regress(x, labeled, each_weight, made.holds, HOLDS, few=few))
    if len(own) < len(asked):  # without foreign questions nothing tells who knows
        x = np.array([[one.features[name] for name in KNOWS] for one in asked])
        y = np.array([one.answerable for one in asked], float)
        balanced = _balance([(one.set, one.answerable) for one in asked], few=few)
        made = replace(made, knows=_regress(x, y, balanced, made.knows, KNOWS, few=few))
        made = replace(made, lower=min(_lower(own, made), start.lower if start else made.upper))
    return made


def _fit_shares(
    own: Sequence[Asked], former: Mapping[str, float], *, few: bool
) -> Mapping[str, float]:
    """The weights under which the labeled chunks of each ranking have the largest shares: a conditional logit."""
    start = np.array([former[name] for name in SHARE])
    told = [one for one in own if one.labeled.any()]
    weights = _balance([(one.set, True) for one in told], few=few)
    longest = max(len(one.scores) for one in told)
    x = np.zeros((len(told), longest, len(start)))
    true, absent = np.zeros((len(told), longest)), np.full((len(told), longest), -np.inf)
    for at, one in enumerate(told):
        count = len(one.scores)
        x[at, :count], absent[at, :count] = score_features(one.scores), 0.0
        true[at, :count] = one.labeled / one.labeled.sum()

    def shares(w: Floats) -> Floats:
        logits = x @ w + absent
        found = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(found / found.sum(1, keepdims=True), np.float64)

    def loss(w: Floats) -> float:
        told_shares = np.where(true > 0, np.log(np.maximum(shares(w), 1e-300)), 0.0)
        away = w - start
        return float(_RIDGE * (away @ away) / 2 - (weights[:, None] * true * told_shares).sum())

    w = start.copy()
    for _ in range(_STEPS):
        p = shares(w)
        mean = np.einsum("qn,qnf->qf", p, x)
        gradient = np.einsum("q,qn,qnf->f", weights, true - p, x) - _RIDGE * (w - start)
        spread = np.einsum("q,qn,qnf,qng->fg", weights, p, x, x, optimize=True)
        hessian = spread - (mean * weights[:, None]).T @ mean + _RIDGE * np.eye(len(w))
        step, now = np.linalg.solve(hessian, gradient), loss(w)
        # a full step may lead too far, since the loss is steep where a share is all or nothing
        while loss(w + step) > now and np.abs(step).max() > _SMALL_STEP:
            step /= 2
        w += step
        if np.abs(step).max() < _SMALL_STEP:
            break
    return dict(zip(SHARE, w.tolist(), strict=True))


def _regress(
    x: Floats,
    y: Floats,
    weight: Floats,
    former: Mapping[str, float],
    names: Sequence[str],
    *,
    few: bool = False,
) -> dict[str, float]:
    """Ridge logistic regression by Newton steps; the first column is the bias, which is free unless data are few."""
    start = np.array([former[name] for name in names])
    w = start.copy()
    ridge = _RIDGE * np.eye(x.shape[1])
    if not few:
        ridge[0, 0] = 1e-6
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        gradient = x.T @ (weight * (y - p)) - ridge @ (w - start)
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + ridge
        step = np.linalg.solve(hessian, gradient)
        w += step
        if np.abs(step).max() < _SMALL_STEP:
            break
    return dict(zip(names, w.tolist(), strict=True))


def _balance(cells: Sequence[tuple[str, bool]], *, few: bool = False) -> Floats:
    """Each set weighs the same, and in it what is answerable as much as what is not.

    With `few`, each weighs as much as the smallest has questions, if that is less.
    """
    places: dict[tuple[str, bool], list[int]] = {}
    for at, cell in enumerate(cells):
        places.setdefault(cell, []).append(at)
    smallest = min(map(len, places.values()), default=0)
    whole = min(_SET_WEIGHT, smallest) if few else _SET_WEIGHT
    weight = np.zeros(len(cells))
    for members in places.values():
        weight[members] = whole / len(members)
    return weight


def _lower(own: Sequence[Asked], model: Model) -> float:
    """The chance of knowing under which REFUSED of the answerable questions are, the mean over sets."""
    marks: dict[str, list[float]] = {}
    for one in own:
        if one.telling:
            marks.setdefault(one.set, []).append(model.chance_known(one.features))
    if not marks:
        return 0.0
    levels = np.unique(np.concatenate([np.array(found) for found in marks.values()]))
    refused = [np.mean([np.mean(np.array(f) < level) for f in marks.values()]) for level in levels]
    return float(levels[max(0, int(np.searchsorted(refused, REFUSED, side="right")) - 1)])


def as_data(model: Model, **about: object) -> dict[str, Any]:
    """The weights as they stand in a file, with what is told about them."""
    steps = {"share": model.share, "holds": model.holds, "knows": model.knows}
    rounded = {s: {name: round(w, 3) for name, w in found.items()} for s, found in steps.items()}
    return {**about, "lower": round(model.lower, 3), "upper": model.upper, **rounded}


# Judgments of a user's own questions

Judgment = tuple[Request, tuple[str, ...]]
"""A question, and the ids or patterns of chunks or documents that answer it; none if what is found is wrong."""


def read_judgments(gate: Millgate, files: Sequence[Path]) -> list[Judgment]:
    """The questions of test files, and the decided reviews of the store."""
    found: list[Judgment] = []
    for case in (case for file in files for case in read_cases(file) if case.must):
        window = Window.of(list(case.window))
        asked = Request(case.question, case.budget, gate.tenant, case.collection, window, case.k)
        found.append((asked, case.must))
    for review in gate.reviews.reviews():
        right = tuple(review.grades) if review.status == "approved" else ()
        if right or review.status == "rejected":  # where nothing was found, nothing was approved
            places = review.collection.split(", ")
            found.append((Request(review.query, tenant=gate.tenant, collection=places), right))
    if sum(bool(right) for _, right in found) < PARTS:  # a part would have none
        raise InputError(
            f"there are fewer than {PARTS} questions of which the right chunks are known",
            hint="record some in a file, millgate test FILE --record 'A question?', or approve reviews: millgate reviews list",
        )
    return found


def observe_judged(gate: Millgate, judgment: Judgment) -> list[Asked]:
    """A judged question as the model sees it in each of its collections; nothing if no chunk was found."""
    request, right = judgment
    source, asked = OWN if right else REJECTED, list[Asked]()
    for name in request.collections:
        ranking = rank(gate, request.query, name)
        labeled = [any(names_chunk(wanted, c.chunk) for wanted in right) for c in ranking]
        asked += describe(gate, request.query, name, ranking, labeled, name=OWN, source=source)
    return asked


def compare(
    gate: Millgate,
    judgments: Sequence[Judgment],
    *,
    start: Model,
    folder: Path,
    tick: Tick = lambda: None,
) -> tuple[dict[str, float], dict[str, float]]:
    """What the contexts of the questions are like now, and by weights fitted on the other questions.

    Each is the mean share of what is right that was shown, the mean of the tokens, and how many contexts are empty: of
    the questions with an answer, and as `stopped` of the rejected ones. The weights are written to files in the folder.
    """
    observed = [observe_judged(gate, judgment) for judgment in judgments]
    tallies: tuple[dict[str, list[float]], ...] = ({}, {})
    for part in range(PARTS):
        others = [a for at, some in enumerate(observed) if at % PARTS != part for a in some]
        file = folder / f"{part}.json"
        file.write_text(json.dumps(as_data(fit(others, start=start))), encoding="utf-8")
        for request, right in judgments[part::PARTS]:
            trace = Trace("", request, decide(request, gate.settings.decide))
            made = gate.replay(trace, {"grade.weights": str(file)})
            for outcome, tally in zip((made.before, made.after), tallies, strict=True):
                empty = float(not outcome.tokens)
                if not right:
                    tally.setdefault("stopped", []).append(empty)
                    continue
                held = (
                    gate.store.chunks(gate.tenant, c, outcome.kept) for c in request.collections
                )
                chunks = [chunk for some in held for chunk in some]
                shown = sum(any(names_chunk(wanted, c) for c in chunks) for wanted in right)
                row = {"evidence": shown / len(right), "tokens": outcome.tokens, "empty": empty}
                for name, value in row.items():
                    tally.setdefault(name, []).append(value)
            tick()
    means = [{name: float(np.mean(found)) for name, found in tally.items()} for tally in tallies]
    return means[0], means[1]
