"""The range of a parameter begins at its present value and ends at the one that rejects least."""

import pytest

from millgate.explain.why import range_of
from millgate.gateway import Millgate
from millgate.ranking.model import read_model


@pytest.fixture(scope="module")
def trace():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": f"d{n}", "text": f"Refund {n} is paid to card {n}."} for n in range(5)])
        return gate.context("how do refunds work?", k=2).trace


@pytest.mark.parametrize(("setting", "first", "size"), [(None, 1.0, 1000), (0.25, 0.25, 250)])
def test_a_threshold_is_lowered_from_where_it_stands_or_from_the_top(trace, setting, first, size):
    values = range_of("facts.min_trust", trace, setting)
    assert (values.value(0), values.value(values.size)) == (first, 0.0)
    assert values.size == size
    assert values.was == setting


@pytest.mark.parametrize(("setting", "was"), [(None, read_model().lower), (0.25, 0.25)])
def test_the_band_of_a_refusal_is_lowered_from_where_it_was_in_force(setting, was):
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": f"d{n}", "text": f"Refund {n} is paid by card."} for n in range(30)])
        question = "Where did Melanie park the blue truck after the concert with her card?"
        refused = gate.context(question).trace
    values = range_of("grade.lower", refused, setting)
    assert (values.was, values.value(0), values.value(values.size)) == (was, was, 0.0)


def test_k_is_raised_from_where_it_stands_to_all_candidates(trace):
    values = range_of("k", trace, 2)
    assert (values.value(0), values.was) == (2, 2)
    assert values.value(values.size) == len(trace.candidates)
