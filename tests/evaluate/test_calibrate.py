"""The grader's constants, fitted on some sets and tried on another."""

import random

import numpy as np
import pytest

from headgate.evaluate.calibrate import (
    _RIDGE,
    REFUSED,
    Asked,
    Fitted,
    _balance,
    _regress,
    fit,
    fit_without,
)
from headgate.relevance.confidence import KNOWS


def asks(*names, own=0.8, away=0.2):
    """Questions whose cover tells where they belong, in sets of some names."""
    dice = random.Random(3)
    rows = []
    for name in names:
        for source in [name] * 60 + ["elsewhere"] * 60:
            cover = dice.gauss(own if source == name else away, 0.1)
            features = dict.fromkeys(KNOWS, 0.5) | {"bias": 1.0, "cover": cover}
            rows.append(Asked(name, source, features))
    return rows


def test_a_fit_tells_answerable_questions_from_foreign_ones():
    rows = asks("a", "b", "c")
    fitted = fit(rows)
    refused = [fitted.refuses(one) for one in rows if one.answerable]
    stopped = [fitted.refuses(one) for one in rows if not one.answerable]
    assert sum(refused) / len(refused) <= REFUSED
    assert sum(stopped) / len(stopped) > 0.8


def test_a_set_is_left_out_with_its_texts_and_its_questions():
    strange = [Asked("a", "odd", dict.fromkeys(KNOWS, 1.0))] * 500
    odd = asks("odd", own=0.0, away=1.0)
    assert fit_without("odd", [*asks("a", "b"), *odd, *strange]) == fit(asks("a", "b"))


def test_nothing_found_is_refused_without_a_question():
    assert Fitted(KNOWS, 0.0).refuses(Asked("a", "a", None))


def test_what_cannot_tell_against_a_question_does_not_refuse_it():
    doubtful = dict.fromkeys(KNOWS, 0.0)
    assert Fitted(KNOWS, 0.9).refuses(Asked("a", "a", doubtful))
    assert not Fitted(KNOWS, 0.9).refuses(Asked("a", "a", doubtful, telling=False))


def test_a_confidence_grows_with_what_is_covered():
    fitted = fit(asks("a", "b"))
    low, high = (dict.fromkeys(KNOWS, 0.5) | {"cover": cover} for cover in (0.1, 0.9))
    assert fitted.confidence(low) < fitted.confidence(high)
    assert fitted.confidence(high) == pytest.approx(1, abs=0.2)


def test_the_ridge_pulls_weights_toward_nothing():
    x = np.array([[1.0, 1.0], [1.0, -1.0]] * 20)
    y = np.array([1.0, 0.0] * 20)
    w = _regress(x, y, np.ones(40))
    # at the optimum the pull of the data equals that of the ridge
    p = 1 / (1 + np.exp(-x @ w))
    assert (x.T @ (y - p))[1] == pytest.approx(_RIDGE * w[1], rel=1e-4)
    assert w[1] > 0
    assert abs(w[0]) < 1e-6


def test_each_set_and_in_it_each_kind_weighs_the_same():
    rows = [Asked("a", "a", {}), Asked("a", "a", {}), Asked("a", "b", {}), Asked("b", "b", {})]
    assert _balance(rows).tolist() == [50.0, 50.0, 100.0, 100.0]
