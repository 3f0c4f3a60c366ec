"""Neighborhood: edges outward from some nodes, hop by hop, and never all of a hub."""

import pytest

from millgate.knowledge import paths as module
from millgate.knowledge.paths import find_nodes, neighborhood
from millgate.stores.temporary import TemporaryStore
from millgate.types import Edge


@pytest.fixture
def chain():
    store = TemporaryStore()
    store.link("t", [Edge(a, "uses", b) for a, b in ("ab", "bc", "cd", "de")])
    return store


def around(store, *nodes, hops=1):
    found = neighborhood(store, dict.fromkeys(nodes, 1.0), tenant="t", hops=hops)
    return [edge for hop in found for edge in hop]


@pytest.mark.parametrize(
    ("hops", "reached"), [(0, ""), (1, "ab"), (2, "abc"), (3, "abcd"), (9, "abcde")]
)
def test_each_hop_reaches_one_edge_farther(chain, hops, reached):
    found = around(chain, "a", hops=hops)
    assert {node for edge in found for node in (edge.source, edge.target)} == set(reached)
    assert len(found) == len(set(found))


def test_one_hop_gives_what_the_store_gives(chain):
    nodes = ["b", "d", "nobody"]
    assert around(chain, *nodes) == chain.edges_touching("t", nodes)


def test_a_cycle_ends_and_another_tenant_sees_nothing(chain):
    chain.link("t", [Edge("e", "uses", "a")])
    assert len(around(chain, "a", hops=20)) == 5
    assert neighborhood(chain, {"a": 1.0}, tenant="u", hops=3) == []


def test_a_hub_gives_its_strongest_edges_only():
    store = TemporaryStore()
    spokes = [Edge("hub", "uses", f"n{n:03}", (n + 1) / 200) for n in range(200)]
    store.link("t", [Edge("a", "uses", "hub"), *spokes])
    found = around(store, "a", hops=2)
    assert [edge.target for edge in found[:2]] == ["hub", "n199"]
    assert len(found) == 1 + module.FAN_OUT


def test_names_are_followed_without_case():
    store = TemporaryStore()
    store.link("t", [Edge("Payments", "uses", "Ledger"), Edge("ledger", "uses", "LEDGER-db")])
    assert len(around(store, "PAYMENTS", hops=2)) == 2
    assert find_nodes(store, ["LEDGER", "nobody"], tenant="t") == {"ledger": "Ledger"}


def test_the_nodes_that_most_reaches_are_followed_first(monkeypatch):
    monkeypatch.setattr(module, "MAX_NODES", 1)
    store = TemporaryStore()
    store.link("t", [Edge("a", "uses", "b", 0.3), Edge("z", "uses", "y", 0.9)])
    store.link("t", [Edge("b", "uses", "c"), Edge("y", "uses", "x")])
    hops = neighborhood(store, {"a": 1.0, "z": 1.0}, tenant="t", hops=2)
    assert hops[1] == (Edge("y", "uses", "x"),)


def test_what_hardly_a_signal_reaches_is_not_followed(chain):
    hops = neighborhood(chain, {"a": 0.1}, tenant="t", hops=9, leak=0.5, floor=0.02)
    assert len(hops) == 3  # .1, .05, .025; .0125 is too little to follow
