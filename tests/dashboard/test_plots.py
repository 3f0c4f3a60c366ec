"""Numbers as shapes of a plot."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.sessions.xray.bars import HEIGHT, WIDTH, Series, draw, round_up

values = st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=50)


def lines(*some, **options):
    return draw("p", "", "", "count", *some, lines=True, **options)


def bars(*some, **options):
    return draw("p", "", "", "count", *some, **options)


@given(values)
def test_a_line_stays_in_the_frame_and_passes_every_value(some):
    plot = lines(Series("s", "new", some))
    points = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", "".join(shape.path for shape in plot.shapes))
    assert len(points) == sum(value is not None for value in some)
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)


def test_bars_stand_on_each_other():
    plot = bars(Series("a", "new", (1.0, 0.0)), Series("b", "stale", (3.0, 2.0)))
    assert plot.top == 4
    assert [shape.path.count("z") for shape in plot.shapes] == [1, 2]
    assert f"M0.0 {0.75 * HEIGHT:.1f}" in plot.shapes[1].path


def test_a_line_has_its_values_in_the_middle_of_their_columns():
    (shape,) = lines(Series("s", "new", (1.0, 4.0))).shapes
    assert shape.path == f"M250.0 {0.75 * HEIGHT:.1f}h6L750.0 0.0"
    assert lines(Series("s", "new", (None,))).shapes == []


def test_a_gap_begins_a_new_line_and_a_value_alone_is_a_dash():
    (line,) = lines(Series("s", "new", (1.0, 1.0, None, 1.0))).shapes
    assert (line.path, line.style) == ("M125.0 0.0h6L375.0 0.0M875.0 0.0h6", "line")


def test_a_point_above_the_scale_stands_at_its_top():
    (line,) = lines(Series("s", "new", (3.0, 0.25)), top=1.0).shapes
    assert line.path == f"M250.0 0.0h6L750.0 {HEIGHT * 0.75:.1f}"


def test_a_bar_is_as_tall_as_its_value_and_leaves_a_gap_to_the_next():
    plot = bars(Series("a", "new", (2.0, None)), Series("b", "stale", (2.0, 1.0)))
    assert plot.shapes[0].path == f"M0.0 {HEIGHT:.1f}v{-HEIGHT / 2:.1f}h440.0v{HEIGHT / 2:.1f}z"
    assert f"M500.0 {HEIGHT:.1f}v{-HEIGHT / 4:.1f}" in plot.shapes[1].path
    assert all(shape.style == "filled" for shape in plot.shapes)


def test_nothing_is_drawn_of_nothing():
    assert bars().shapes == []
    assert (bars(Series("a", "new", (0.0,))).top, lines().top) == (1.0, 1.0)


@given(st.floats(1e-6, 1e12))
def test_the_top_of_an_axis_is_near_its_highest_value_and_easily_read(value):
    top = round_up(value)
    assert value <= top * (1 + 1e-9)
    assert top <= 2 * value * (1 + 1e-9)
    assert float(f"{top:.0e}") == pytest.approx(top)
