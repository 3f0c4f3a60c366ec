"""Calibrate: fit the constants of the built-in grader on labeled sets, and judge by constants fitted without a set.

A question asked in its own set should be answered, one of another set refused. `fit` is a ridge logistic regression
over the features of `relevance.confidence`, in which each set weighs the same, and its answerable questions as much as
foreign ones. `lower` is then the confidence under which one in 400 of the answerable questions would be refused.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headgate.evaluate.labeled import Labeled
from headgate.evaluate.retrieval import (
    FOREIGN,
    JUDGED,
    Figures,
    Run,
    Tally,
    Tick,
    foreign,
    judged_budget,
)
from headgate.evaluate.shown import measure, pieces_of
from headgate.evaluate.stored_set import StoredSet, collection_of
from headgate.gateway import Headgate
from headgate.rank.lexical import Floats
from headgate.relevance.confidence import KNOWS, LOOK, evidence, has_enough_terms_to_refuse
from headgate.relevance.query_terms import ask, match
from headgate.types import Context

REFUSED = 1 / 400  # share of the answerable questions that `lower` may cost, the mean over sets
_RIDGE = 1.0
_STEPS = 60
_UNGRADED = {"grade": {"enabled": False}}


@dataclass(frozen=True, slots=True)
class Asked:
    """One question asked in one set: the features of what would be shown, None when nothing was found, and whether
    they can tell against it.
    """

    set: str
    source: str  # the set the question is from
    features: dict[str, float] | None
    telling: bool = True

    @property
    def answerable(self) -> bool:
        """Whether it was asked in its own set."""
        return self.set == self.source


@dataclass(frozen=True, slots=True)
class Fitted:
    """Constants, and the confidence under which a question is refused."""

    weights: dict[str, float]
    lower: float

    def refuses(self, asked: Asked) -> bool:
        """Whether a question would come back empty."""
        if asked.features is None:
            return True
        return asked.telling and self.confidence(asked.features) < self.lower

    def confidence(self, features: dict[str, float]) -> float:
        """The chance that the question is asked in the right place."""
        logit = sum(weight * features[name] for name, weight in self.weights.items())
        return float(1 / (1 + np.exp(-np.clip(logit, -30, 30))))


@dataclass(slots=True)
class Ungraded:
    """A set asked without a grader: each question as one would see it, and the evidence when nothing is refused."""

    asked: list[Asked] = field(default_factory=list)
    evidence: Tally = field(default_factory=Tally)


def ask_ungraded(
    stored: StoredSet,
    *,
    budgets: Sequence[int],
    others: Sequence[Labeled],
    most_foreign: int = FOREIGN,
    tick: Tick = lambda: None,
) -> Ungraded:
    """Ask the questions of a set, and those of others in it, without a grader."""
    labeled, found = stored.labeled, Ungraded()
    with stored.open(_UNGRADED) as gate:
        for query in labeled.queries:
            text, collection = query["text"], collection_of(query)
            for budget in budgets:
                shown = gate.context(text, budget=budget, collection=collection)
                figures = measure(pieces_of(shown), shown.token_estimate, stored.truth(query))
                found.evidence.add({f"context_evidence@{budget}": figures["context_evidence"]})
                if budget == judged_budget(budgets):
                    seen = _see(gate, text, collection, shown, stored, source=labeled.name)
                    found.asked.append(seen)
            tick()
        for collection, source, text in foreign(labeled, others, most_foreign):
            shown = gate.context(text, budget=JUDGED, collection=collection)
            found.asked.append(_see(gate, text, collection, shown, stored, source=source))
            tick()
    return found


def _see(
    gate: Headgate, text: str, collection: str, shown: Context, stored: StoredSet, *, source: str
) -> Asked:
    """A question as the grader sees it beside a context."""
    name = stored.labeled.name
    if not shown.chunks:
        return Asked(name, source, None)
    view = gate.index(collection)
    question, best = ask(text, view), shown.chunks[:LOOK]
    matches = match(question, best, view.language)
    features = evidence(question, matches, [chunk.text for chunk in best], view)
    return Asked(name, source, features, has_enough_terms_to_refuse(question, matches))


def leave_one_out(runs: Sequence[Run], found: Sequence[Ungraded]) -> dict[str, Figures]:
    """The figures of each set, judged by a grader fitted on the others."""
    asked = [one for ungraded in found for one in ungraded.asked]
    return {
        run.labeled.name: run.figures(
            judge_again(run.ours, ungraded, fit_without(run.labeled.name, asked))
        )
        for run, ungraded in zip(runs, found, strict=True)
    }


def judge_again(ours: Tally, ungraded: Ungraded, held_out: Fitted) -> Tally:
    """Our figures as a grader with other constants makes them: it shows all or nothing."""
    own = [one for one in ungraded.asked if one.answerable]
    refused = np.array([held_out.refuses(one) for one in own], bool)
    judged = Tally({name: list(found) for name, found in ours.values.items()})
    for name, found in ungraded.evidence.values.items():
        judged.values[name] = np.where(refused, 0.0, found).tolist()
        judged.values[name.replace("context_evidence", "empty")] = refused.astype(float).tolist()
    away = [one for one in ungraded.asked if not one.answerable]
    if away:
        judged.values["stopped"] = [float(held_out.refuses(one)) for one in away]
    return judged


def fit(asked: Sequence[Asked]) -> Fitted:
    """The constants that tell answerable questions from foreign ones."""
    rows = [one for one in asked if one.features is not None]
    x = np.array([[one.features[name] for name in KNOWS] for one in rows if one.features])
    y = np.array([one.answerable for one in rows], float)
    weights = dict(zip(KNOWS, np.round(_regress(x, y, _balance(rows)), 2).tolist(), strict=True))
    return Fitted(weights, _lower(rows, weights))


def fit_without(name: str, asked: Iterable[Asked]) -> Fitted:
    """The constants fitted without a set: neither its texts nor its questions."""
    return fit([one for one in asked if name not in {one.set, one.source}])


def _balance(rows: Sequence[Asked]) -> Floats:
    """Each set weighs the same, and in it what is answerable as much as what is not."""
    cells: dict[tuple[str, bool], list[int]] = {}
    for at, one in enumerate(rows):
        cells.setdefault((one.set, one.answerable), []).append(at)
    weight = np.zeros(len(rows))
    for members in cells.values():
        weight[members] = 100 / len(members)
    return weight


def _regress(x: Floats, y: Floats, weight: Floats) -> Floats:
    """Ridge logistic regression by Newton steps; the first column is the bias, which is free."""
    w = np.zeros(x.shape[1])
    ridge = _RIDGE * np.eye(x.shape[1])
    ridge[0, 0] = 1e-6
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        gradient = x.T @ (weight * (y - p)) - ridge @ w
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + ridge
        step = np.linalg.solve(hessian, gradient)
        w += step
        if np.abs(step).max() < 1e-7:
            break
    return w


def _lower(rows: Sequence[Asked], weights: dict[str, float]) -> float:
    judge = Fitted(weights, 0.0)
    marks: dict[str, list[float]] = {}
    for one in rows:
        if one.answerable and one.features:
            marks.setdefault(one.set, []).append(judge.confidence(one.features))
    levels = np.unique(np.concatenate([np.array(found) for found in marks.values()]))
    refused = [np.mean([np.mean(np.array(f) < level) for f in marks.values()]) for level in levels]
    return float(levels[max(0, int(np.searchsorted(refused, REFUSED, side="right")) - 1)])
