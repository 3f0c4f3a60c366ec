"""Confidences beside the truth."""

from dataclasses import replace

import pytest

from millgate.evaluate.retrieval import calibration_error, graded_pairs
from millgate.evaluate.shown import Truth
from millgate.gateway import Millgate
from millgate.types.notes import Fate, NoteCode, Stage


def pairs(said, true, count):
    return [(said, n < true) for n in range(count)]


def test_the_error_is_the_distance_of_each_band_weighed_by_its_pairs():
    found = [*pairs(0.25, 1, 4), *pairs(0.95, 1, 2), *pairs(1.0, 1, 1)]
    assert calibration_error([found]) == pytest.approx(3 / 7 * 0.9 / 3)
    assert calibration_error([]) == calibration_error([[]]) == 0.0


def test_each_set_weighs_the_same():
    assert calibration_error([pairs(0.5, 1, 1), pairs(0.5, 0, 99), []]) == pytest.approx(0.0)


def test_a_trace_tells_the_last_confidence_of_what_was_graded():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "a", "text": "harbor contract"}, {"id": "b", "text": "harbor rivers"}])
        made = gate.context("harbor contract", budget=500)
        found = graded_pairs(made, Truth({"a": 1}))
    assert [true for _, true in sorted(found, reverse=True)] == [True, False]
    said = {c.chunk.id: c.with_note(Stage.GRADE, Fate.KEEP, NoteCode.GRADED, confidence=0.7) for c in made.trace.candidates}  # fmt: skip
    later = replace(made, trace=replace(made.trace, candidates=tuple(said.values())))
    assert {mark for mark, _ in graded_pairs(later, Truth({"a": 1}))} == {0.7}
