"""Knobs begin where they stand and end wide open."""

import pytest

from headgate.explain.knobs import KNOBS
from headgate.gateway import Headgate

SCALES = {knob.name: knob.scale for knob in KNOBS}


@pytest.fixture(scope="module")
def trace():
    with Headgate.open(":memory:") as hg:
        hg.add([{"id": f"d{n}", "text": f"Refund {n} is paid to card {n}."} for n in range(5)])
        return hg.context("how do refunds work?", k=2).trace


@pytest.mark.parametrize(("setting", "first", "size"), [(None, 1.0, 1000), (0.25, 0.25, 250)])
def test_a_threshold_is_lowered_from_where_it_stands_or_from_the_top(trace, setting, first, size):
    scale = SCALES["grade.lower"](trace, setting)
    assert (scale.value(0), scale.value(scale.size)) == (first, 0.0)
    assert scale.size == size
    assert scale.was == setting


def test_k_is_raised_from_where_it_stands_to_all_candidates(trace):
    scale = SCALES["k"](trace, None)
    assert (scale.value(0), scale.was) == (2, 2)
    assert scale.value(scale.size) == len(trace.candidates)
