"""Where names and edges stand in the picture of a neighborhood."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.service.dashboard.graph_picture import (
    HEIGHT,
    MOST_FAR,
    MOST_NEAR,
    WIDTH,
    draw_graph,
)
from headgate.types import Edge

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
