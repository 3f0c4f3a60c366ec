"""Neighborhood: edges outward from some nodes, hop by hop, and never all of a hub."""

import pytest

from headgate.graph import neighborhood as module
from headgate.graph.neighborhood import neighborhood
from headgate.stores.memory.store import MemoryStore
from headgate.types import Edge


@pytest.fixture
def chain():
    store = MemoryStore()
    store.link("t", [Edge(a, "uses", b) for a, b in ("ab", "bc", "cd", "de")])
    return store


@pytest.mark.parametrize(
    ("hops", "reached"), [(0, ""), (1, "ab"), (2, "abc"), (3, "abcd"), (9, "abcde")]
)
def test_each_hop_reaches_one_edge_farther(chain, hops, reached):
    found = neighborhood(chain, ["a"], tenant="t", hops=hops)
    assert {node for edge in found for node in (edge.source, edge.target)} == set(reached)
    assert len(found) == len(set(found))


def test_one_hop_gives_what_the_store_gives(chain):
    nodes = ["b", "d", "nobody"]
    assert list(neighborhood(chain, nodes, tenant="t")) == chain.edges_touching("t", nodes)


def test_a_cycle_ends_and_another_tenant_sees_nothing(chain):
    chain.link("t", [Edge("e", "uses", "a")])
    assert len(neighborhood(chain, ["a"], tenant="t", hops=20)) == 5
    assert neighborhood(chain, ["a"], tenant="u", hops=3) == ()


def test_a_hub_gives_its_strongest_edges_only():
    store = MemoryStore()
    spokes = [Edge("hub", "uses", f"n{n:03}", (n + 1) / 200) for n in range(200)]
    store.link("t", [Edge("a", "uses", "hub"), *spokes])
    found = neighborhood(store, ["a"], tenant="t", hops=2)
    assert [edge.target for edge in found[:2]] == ["hub", "n199"]
    assert len(found) == 1 + module.FAN_OUT
