"""Confidences beside the truth."""

import pytest

from millgate.evaluate.reliability import (
    Pair,
    bands,
    confidence_of,
    expected_error,
    graded_pairs,
    pool,
)
from millgate.evaluate.shown import Truth
from millgate.gateway import Millgate
from millgate.types import Candidate, Chunk
from millgate.types.notes import Fate, NoteCode, Stage


def pairs(said, true, count):
    return [Pair(said, n < true) for n in range(count)]


def test_the_error_is_the_distance_of_each_band_weighed_by_its_pairs():
    found = [*pairs(0.25, 1, 4), *pairs(0.95, 1, 2), *pairs(1.0, 1, 1)]
    low, high = bands(found)
    assert (low.low, low.high, low.pairs, low.said, low.true) == (0.2, 0.3, 4, 0.25, 0.25)
    assert (high.pairs, high.true) == (3, pytest.approx(2 / 3))
    assert high.said == pytest.approx(2.9 / 3)
    assert expected_error(found) == pytest.approx(3 / 7 * 0.9 / 3)
    assert (expected_error([]), bands([])) == (0.0, [])


def test_each_set_weighs_the_same_in_a_pool():
    pooled = pool([pairs(0.5, 1, 1), pairs(0.5, 0, 99), []])
    assert expected_error(pooled) == pytest.approx(0.0)
    assert bands(pooled)[0].true == pytest.approx(0.5)


def test_the_last_confidence_that_was_noted_counts():
    candidate = Candidate(Chunk("a", "x"), 1.0)
    assert confidence_of(candidate) is None
    for mark in (0.2, 0.7):
        candidate = candidate.with_note(Stage.GRADE, Fate.KEEP, NoteCode.GRADED, confidence=mark)
    candidate = candidate.with_note(Stage.COMPOSE, Fate.KEEP, NoteCode.SHOWN, tokens=3)
    assert confidence_of(candidate) == 0.7


def test_a_trace_tells_the_confidence_of_what_was_graded():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "a", "text": "harbor contract"}, {"id": "b", "text": "harbor rivers"}])
        found = graded_pairs(gate.context("harbor contract", budget=500), Truth({"a": 1}))
    assert [pair.true for pair in sorted(found, key=lambda pair: -pair.said)] == [True, False]
