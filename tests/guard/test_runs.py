"""Comparisons of slices say what comparing character by character says."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.guard.runs import LEAP, common_prefix, repeats, run_start, shortest_unit

TEXTS = st.one_of(
    st.text("ab", max_size=12),
    st.integers(0, 6 * LEAP).map(lambda size: "a" * size),
    st.tuples(st.integers(0, 6 * LEAP), st.text("ab", max_size=4)).map(lambda t: "a" * t[0] + t[1]),
)


@given(TEXTS, TEXTS)
def test_the_common_prefix_is_what_both_begin_with(left, right):
    size = common_prefix(left, right)
    assert left[:size] == right[:size]
    assert size == min(len(left), len(right)) or left[size] != right[size]


@given(st.text("ab", min_size=1, max_size=5), st.integers(1, 4))
def test_the_shortest_unit_makes_up_the_whole(unit, copies):
    whole = unit * copies
    size = shortest_unit(whole)
    assert size <= len(unit)
    assert whole[:size] * (len(whole) // size) == whole


@given(st.text("ab", max_size=6), st.text("ab", min_size=1, max_size=4), st.integers(2, 90))
def test_a_run_begins_where_the_text_first_repeats(before, unit, copies):
    text, period = before + unit * copies, len(unit)
    assert repeats(text, len(text), period, period * (copies - 1))
    assert not repeats(text, len(text), period, len(text) - period + 1)
    start = run_start(text, len(text), period, 0)
    plain = next(i for i in range(len(text)) if text[i:-period] == text[i + period :])
    assert start == plain
