"""Numbers as shapes of a plot."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.service.dashboard.plots import bucket_edges, draw_lines, percentile
from millgate.sessions.xray.bars import HEIGHT, WIDTH, Series, draw_bars, round_up

values = st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=50).map(tuple)


@given(values)
def test_a_line_stays_in_the_frame_and_passes_every_value(some):
    plot = draw_lines([Series("s", "new", some)])
    points = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", "".join(shape.path for shape in plot.shapes))
    assert len(points) == sum(value is not None for value in some)
    assert all(-3 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)


def test_a_bucket_without_a_value_is_a_gap():
    (shape,) = draw_lines([Series("s", "new", (1, 2, None, 3, 4))]).shapes
    assert shape.path.count("M") == 2


def test_bars_stand_on_each_other():
    plot = draw_bars([Series("a", "new", (1.0, 0.0)), Series("b", "stale", (3.0, 2.0))])
    assert plot.top == 4
    assert [shape.path.count("z") for shape in plot.shapes] == [1, 2]
    assert f"M0.0 {0.75 * HEIGHT:.1f}" in plot.shapes[1].path


@pytest.mark.parametrize(("share", "found"), [(0.5, 51), (0.95, 96), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share, found):
    assert percentile(range(1, 101), share) == found


def test_no_values_have_no_percentile():
    assert percentile([], 0.5) is None


@given(st.floats(0, 1e10), st.floats(0, 1e7), st.integers(1, 60))
def test_buckets_follow_one_another(start, length, count):
    edges = bucket_edges(start, start + length, count)
    assert len(edges) == count
    assert all(before[1] == after[0] for before, after in pairwise(edges))
    assert (edges[0][0], edges[-1][1]) == (start, start + length)


def test_a_line_has_its_values_in_the_middle_of_their_columns():
    (shape,) = draw_lines([Series("s", "new", (1.0, 4.0))]).shapes
    assert shape.path == f"M250.0 {0.75 * HEIGHT:.1f}L750.0 0.0"
    lone = draw_lines([Series("s", "new", (None, 2.0))], top=4.0)
    assert lone.shapes[0].path == f"M750.0 {0.5 * HEIGHT:.1f}h0"
    assert lone.top == 4.0
    assert draw_lines([Series("s", "new", (None,))]).shapes == ()


def test_a_gap_begins_a_new_line_and_a_value_alone_is_a_dot():
    line, dots = draw_lines([Series("s", "new", (1.0, 1.0, None, 1.0))]).shapes
    assert (line.path, line.style) == ("M125.0 0.0L375.0 0.0", "line")
    assert (dots.path, dots.style) == ("M875.0 0.0h0", "dots")


def test_a_bar_is_as_tall_as_its_value_and_leaves_a_gap_to_the_next():
    plot = draw_bars([Series("a", "new", (2.0, None)), Series("b", "stale", (2.0, 1.0))])
    assert plot.shapes[0].path == f"M0.0 {HEIGHT:.1f}v{-HEIGHT / 2:.1f}h440.0v{HEIGHT / 2:.1f}z"
    assert f"M500.0 {HEIGHT:.1f}v{-HEIGHT / 4:.1f}" in plot.shapes[1].path
    assert all(shape.style == "filled" for shape in plot.shapes)


def test_nothing_is_drawn_of_nothing():
    assert draw_bars([]).shapes == ()
    assert (draw_bars([Series("a", "new", (0.0,))]).top, draw_lines([]).top) == (1.0, 1.0)


def test_buckets_have_equal_lengths():
    assert bucket_edges(10.0, 20.0, 4) == [(10.0, 12.5), (12.5, 15.0), (15.0, 17.5), (17.5, 20.0)]


@given(st.floats(1e-6, 1e12))
def test_the_top_of_an_axis_is_near_its_highest_value_and_easily_read(value):
    top = round_up(value)
    assert value <= top * (1 + 1e-9)
    assert top <= 2 * value * (1 + 1e-9)
    assert float(f"{top:.0e}") == pytest.approx(top)
