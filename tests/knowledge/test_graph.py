"""Graph: what `gate.graph` gives a tenant: edges, paths over them, and slices of its conversations."""

import pytest

from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.knowledge.graph import Graph
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FixedClock
from millgate.types import Edge

ROUTE = [Edge("a", "uses", "b", 0.5), Edge("b", "uses", "c", 0.5), Edge("c", "uses", "d", 0.5)]


@pytest.fixture
def graph():
    return Graph(TemporaryStore(), "t", clock=FixedClock(1_000_000.0))


def test_linking_counts_what_is_new_or_changed(graph):
    assert graph.link(ROUTE) == 3
    assert graph.link(ROUTE) == 0
    assert graph.link([Edge("a", "uses", "b", 0.9)]) == 1


@pytest.mark.parametrize("wrong", [{"source": "a"}, ("a", "uses", "b"), "a"])
def test_what_is_no_edge_is_named(graph, wrong):
    for take in (graph.link, graph.unlink):
        with pytest.raises(InputError, match="not an Edge") as raised:
            take([wrong])
        assert "Edge(" in raised.value.hint


def test_paths_reach_as_far_and_are_as_many_as_asked_for(graph):
    graph.link(ROUTE)
    assert {path.nodes[-1] for path, _ in graph.paths("a", max_hops=1)} == {"b"}
    assert {path.nodes[-1] for path, _ in graph.paths("a", max_hops=2)} == {"b", "c"}
    assert len(graph.paths("a", max_hops=2, max_results=1)) == 1


def test_a_collection_links_what_its_documents_say():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "page.md", "text": "See [the other](other.md)."}])
        assert gate.graph.load_collection("main").linked == 1
        assert [edge.target for edge in gate.graph.edges("page.md")] == ["other.md"]


def test_a_slice_holds_turns_alone_and_only_admitting_writes_its_token():
    with Millgate.open(":memory:") as gate:
        kept = gate.add_turns("s", ["Ann: the tide turns", "Ben: at six"])
        gate.add([{"id": "page", "text": "The tide table.", "collection": "turns"}])
        signed = gate.graph.cut_slice(kept.ids[0])
        assert {turn.id for turn in signed.turns} == set(kept.ids)
        assert {c.admission for c in gate.store.scan("default", "turns")} == {None}
        gate.graph.cut_slice(kept.ids[0], admit=True)
        tokens = {chunk.id: chunk.admission for chunk in gate.store.scan("default", "turns")}
        assert tokens == dict.fromkeys(kept.ids, signed.token) | {"page": None}


def test_a_replaced_secret_verifies_for_as_many_days_as_it_was_given():
    clock = FixedClock(1_000_000.0)
    with Millgate.open(":memory:", clock=clock) as gate:
        kept = gate.add_turns("s", ["Ann: the tide turns"])
        signed = gate.graph.cut_slice(kept.ids[0])
        assert gate.graph.rotate_secret(days=2) == 1_000_000.0 + 2 * 86_400
        clock.advance(2 * 86_400 - 1)
        assert gate.graph.verify(signed)
        clock.advance(1)
        assert not gate.graph.verify(signed)
