"""Fit the model of relevance on labeled sets, and judge each set by weights fitted without it.

Each question of a set is asked in its own set and some questions of other sets are, through retrieve and propagate as
they ship. `share` and `holds` tell the labeled chunks of a ranking from the rest, `knows` a set's own questions from
foreign ones (ranking/model.py). All are ridge regressions by Newton steps, in which each set weighs the same, and in
a set each question. `lower` is the chance of knowing under which one in 400 of the answerable questions would be
refused. With fewer sets than MIN_SETS the weights are drawn toward the shipped ones and not toward 0, since little data
says little about thirteen weights. A set of few questions then weighs as much as it has, and `lower` only falls: a
handful of questions cannot tell what one in 400 is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from millgate.evaluate.labeled import Labeled, copies
from millgate.evaluate.reliability import Pair, expected_error, pool
from millgate.evaluate.retrieval import Tick, foreign
from millgate.evaluate.stored_set import StoredSet, collection_of
from millgate.gateway import Millgate
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
    read_model,
    score_features,
    share_features,
)
from millgate.ranking.question import ask, match_known
from millgate.types import Candidate

QUESTIONS, FOREIGN = 120, 72  # of a set, and of the other sets in it
MIN_SETS = 4  # sets below which a model fitted without one of them says little
REFUSED = 1 / 400  # share of the answerable questions that `lower` may cost, the mean over sets
SHOWN = 10  # best chunks of a ranking by which calibration is judged: about what a context of 1,000 tokens shows
_SET_WEIGHT = 100.0
_RIDGE = 1.0
_STEPS = 60
_SMALL_STEP = 1e-6
_SMALLEST = 1e-300


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


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What weights fitted without a set do on it."""

    empty: float
    stopped: float
    pairs: list[Pair]


def observe(
    stored: StoredSet,
    others: Sequence[Labeled],
    *,
    most_foreign: int = FOREIGN,
    tick: Tick = lambda: None,
) -> list[Asked]:
    """Ask a set's questions, and some of other sets, in the set."""
    labeled = stored.labeled
    alike, asked = copies(labeled), list[Asked]()
    with stored.open() as gate:
        for query in labeled.queries:
            labels = labeled.labels[query["_id"]]
            evidence = {*labels}.union(*(alike.get(id, ()) for id in labels))
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


def fit(asked: Sequence[Asked], *, start: Model | None = None) -> Model:
    """The weights for these questions; drawn toward those of `start` if there is one, else toward 0."""
    nothing = [dict.fromkeys(names, 0.0) for names in (SHARE, HOLDS, KNOWS)]
    near = start or Model(nothing[0], nothing[1], nothing[2], lower=0.0)
    few = start is not None
    own = [one for one in asked if one.answerable]
    share = _pair_names(SHARE, _fit_shares(own, _row(near.share, SHARE), few=few))
    made = replace(near, share=share)
    weights = _balance([(one.set, True) for one in own], few=few)
    rows = [share_features(one.features, made.shares(one.scores)) for one in own]
    each = [np.full(len(one.scores), w) for one, w in zip(own, weights.tolist(), strict=True)]
    labeled = np.concatenate([one.labeled for one in own])
    start_row = _row(near.holds, HOLDS)
    holds = _regress(np.vstack(rows), labeled, np.concatenate(each), start_row, few=few)
    made = replace(made, holds=_pair_names(HOLDS, holds))
    if len(own) < len(asked):  # without foreign questions nothing tells who knows
        x = np.array([[one.features[name] for name in KNOWS] for one in asked])
        y = np.array([one.answerable for one in asked], float)
        balanced = _balance([(one.set, one.answerable) for one in asked], few=few)
        made = replace(
            made,
            knows=_pair_names(KNOWS, _regress(x, y, balanced, _row(near.knows, KNOWS), few=few)),
        )
        made = replace(made, lower=min(_lower(own, made), start.lower if start else made.upper))
    return made


def _fit_shares(own: Sequence[Asked], start: Floats, *, few: bool) -> Floats:
    """The weights under which the labeled chunks of each ranking have the largest shares: a conditional logit."""
    told = [one for one in own if one.labeled.any()]
    weights = _balance([(one.set, True) for one in told], few=few)
    longest = max((len(one.scores) for one in told), default=0)
    x = np.zeros((len(told), longest, len(start)))
    true, absent = np.zeros((len(told), longest)), np.full((len(told), longest), -np.inf)
    for at, one in enumerate(told):
        size = len(one.scores)
        x[at, :size], absent[at, :size] = score_features(one.scores), 0.0
        true[at, :size] = one.labeled / one.labeled.sum()

    def shares(w: Floats) -> Floats:
        logits = x @ w + absent
        found = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(found / found.sum(1, keepdims=True), np.float64)

    def loss(w: Floats) -> float:
        told_shares = np.where(true > 0, np.log(np.maximum(shares(w), _SMALLEST)), 0.0)
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
    return w


def fit_without(name: str, asked: Iterable[Asked]) -> Model:
    """The weights fitted without a set: neither its texts nor its questions."""
    return fit([one for one in asked if name not in {one.set, one.source}])


def hold_out(name: str, asked: Iterable[Asked]) -> HeldOut:
    """What weights that know neither the texts nor the questions of a set do on it."""
    every = list(asked)
    model = fit_without(name, every)
    mine = [one for one in every if one.set == name]
    refused = [
        (one.answerable, one.telling and model.chance_known(one.features) < model.lower)
        for one in mine
    ]
    pairs = []
    for one in mine:
        held = model.chances_held(one.features, model.shares(one.scores)) * model.chance_known(
            one.features
        )
        rows = zip(held[:SHOWN].tolist(), one.labeled[:SHOWN].tolist(), strict=True)
        pairs += [Pair(said, bool(true)) for said, true in rows] if one.answerable else []
    own, away = ([no for answerable, no in refused if answerable is kind] for kind in (True, False))
    return HeldOut(_mean(own), _mean(away), pairs)


def figures(held: Mapping[str, HeldOut]) -> dict[str, float]:
    """The means over the sets left out."""
    found = list(held.values())
    return {
        "empty": round(_mean([one.empty for one in found]), 4),
        "empty_worst": round(max(one.empty for one in found), 4),
        "stopped": round(_mean([one.stopped for one in found]), 3),
        "calibration_error": round(expected_error(pool([one.pairs for one in found])), 3),
    }


def as_data(model: Model, **about: object) -> dict[str, Any]:
    """The weights as they stand in a file, with what is told about them."""
    return {
        **about,
        "lower": round(model.lower, 3),
        "upper": model.upper,
        **{
            step: {name: round(value, 3) for name, value in weights.items()}
            for step, weights in _steps(model)
        },
    }


def _steps(model: Model) -> Sequence[tuple[str, Mapping[str, float]]]:
    return ("share", model.share), ("holds", model.holds), ("knows", model.knows)


def fit_sets(asked: Sequence[Asked], names: Sequence[str]) -> tuple[Model, dict[str, HeldOut]]:
    """The model for some sets, and what it does on each if fitted without it; none of that for few sets."""
    if len(names) < MIN_SETS:
        return fit(asked, start=read_model()), {}
    return fit(asked), {name: hold_out(name, asked) for name in names}


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


def _regress(x: Floats, y: Floats, weight: Floats, start: Floats, *, few: bool = False) -> Floats:
    """Ridge logistic regression by Newton steps; the first column is the bias, which is free unless data are few."""
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
    return w


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


def _row(weights: Mapping[str, float], names: Sequence[str]) -> Floats:
    return np.array([weights[name] for name in names])


def _pair_names(names: Sequence[str], values: Floats) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
