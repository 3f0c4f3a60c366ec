"""Where names and edges stand in the picture of a neighborhood."""

from math import cos, pi, sin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.service.dashboard.graph import (
    HEIGHT,
    INNER,
    MOST_FAR,
    MOST_NEAR,
    NAMED,
    OUTER,
    TILT,
    WIDTH,
    _node,
    draw_graph,
)
from millgate.types import Edge

names = st.sampled_from("abcdefghij")
edges = st.lists(st.builds(Edge, names, st.just("p"), names), min_size=1, max_size=60)


@given(edges)
def test_every_name_stands_once_inside_the_frame_and_every_edge_joins_two(some):
    picture = draw_graph(some[0].source, some)
    assert len({node.name for node in picture.nodes}) == len(picture.nodes)
    assert all(0 <= node.x <= WIDTH and 0 <= node.y <= HEIGHT for node in picture.nodes)
    shown = {node.name for node in picture.nodes}
    assert all({line.edge.source, line.edge.target} <= shown for line in picture.lines)


def test_a_hub_is_drawn_in_part_and_the_rest_is_counted():
    hub = [Edge("hub", "has", f"n{n}") for n in range(100)]
    picture = draw_graph("hub", hub)
    assert len(picture.nodes) == 1 + MOST_NEAR
    assert picture.left_out == 100 - MOST_NEAR
    assert not any(line.label for line in picture.lines), "labels would cover each other"


def test_what_is_two_edges_away_stands_on_the_outer_circle():
    chain = [Edge("a", "to", "b"), Edge("b", "to", "c")]
    rings = {node.name: node.ring for node in draw_graph("a", chain).nodes}
    assert rings == {"a": 0, "b": 1, "c": 2}
    far = [Edge("a", "to", "b"), *(Edge("b", "to", f"n{n}") for n in range(100))]
    assert len(draw_graph("a", far).nodes) == 2 + MOST_FAR


def test_a_name_stands_at_its_angle_and_its_label_on_the_outer_side():
    picture = draw_graph("a", [Edge("a", "to", name, weight=0.5) for name in "bcde"])
    places = {node.name: node for node in picture.nodes}
    assert (places["a"].x, places["a"].y, places["a"].anchor) == (WIDTH / 2, HEIGHT / 2, "middle")
    radius = OUTER * 0.8
    for at, name in enumerate("bcde"):
        angle = pi / 2 * at + TILT
        assert places[name].x == pytest.approx(WIDTH / 2 + radius * cos(angle) * (WIDTH / 2 - 180))
        assert places[name].y == pytest.approx(HEIGHT / 2 + radius * sin(angle) * (HEIGHT / 2 - 24))
    assert [places[name].anchor for name in "bcde"] == ["start", "end", "end", "start"]
    assert [line.width for line in picture.lines] == [pytest.approx(1.9)] * 4


@pytest.mark.parametrize(("count", "named"), [(NAMED, True), (NAMED + 1, False)])
def test_edges_are_labeled_while_they_are_few(count, named):
    picture = draw_graph("a", [Edge("a", "has", f"n{n}") for n in range(count)])
    assert {line.label for line in picture.lines} == {"has" if named else ""}


def test_with_a_second_circle_the_first_one_is_smaller():
    places = {n.name: n for n in draw_graph("a", [Edge("b", "to", "a"), Edge("b", "to", "c")]).nodes}  # fmt: skip
    assert places["b"].x == pytest.approx(WIDTH / 2 + INNER * cos(TILT) * (WIDTH / 2 - 180))
    assert places["c"].x == pytest.approx(WIDTH / 2 + OUTER * cos(TILT) * (WIDTH / 2 - 180))


def test_who_stands_right_above_the_middle_is_labeled_in_the_middle():
    near = _node("x", 0.09, 1.0, ring=1), _node("x", -0.1, 1.0, ring=1), _node("x", 0.1, 1.0, ring=1)  # fmt: skip
    assert [node.anchor for node in near] == ["middle", "end", "start"]


def test_only_edges_between_shown_names_are_drawn():
    edges = [*(Edge("hub", "has", f"n{n:03}") for n in range(MOST_NEAR + 1)), Edge(f"n{MOST_NEAR:03}", "has", "n000")]  # fmt: skip
    picture = draw_graph("hub", edges)
    assert len(picture.lines) == MOST_NEAR
    assert picture.left_out == 1
