"""Calibrate: fit the constants of the built-in grader on labeled sets, and judge by constants fitted without a set.

A question asked in its own set should be answered, one of another set refused. `fit` is a ridge logistic regression
over the features of `relevance.confidence`, in which each set weighs the same, and its answerable questions as much as
foreign ones. `lower` is then the confidence under which one in 400 of the answerable questions would be refused.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.rank.lexical import Floats
from headgate.relevance.confidence import KNOWS

REFUSED = 1 / 400  # share of the answerable questions that `lower` may cost, the mean over sets
_RIDGE = 1.0
_STEPS = 60


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
