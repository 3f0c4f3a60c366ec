"""Steps: how each stage is called for one request."""

from dataclasses import fields
from itertools import pairwise

import pytest

from headgate import wiring
from headgate.graph.knowledge import GraphPolicy, edge
from headgate.pipeline.engine import Engine, Policies
from headgate.pipeline.steps import Steps
from headgate.settings import Settings
from headgate.text.tokens import estimate_tokens
from headgate.types import Plan, Request, Strategy, Tier


@pytest.fixture(scope="module")
def parts():
    made = wiring.build(Settings(store=":memory:"))
    chain = ("falcon", "one", "two", "three", "four")
    edges = [edge(a, "uses", b) for a, b in pairwise(chain)]
    edges += [edge("osprey", "uses", f"part {n}") for n in range(9)]
    made.store.link("default", edges)
    yield made
    made.close()


def paths(parts, query, strategy, *, graph=True, **knobs):
    """The paths that a request finds under a strategy."""
    policies = {f.name: getattr(parts.settings, f.name) for f in fields(Policies)}
    policy = Policies(**{**policies, "graph": GraphPolicy(**knobs)})
    engine = Engine(parts.store, parts.indexes.snapshot, policy, count=estimate_tokens)
    run = Steps(engine.resources, policy, Request(query, graph=graph))
    run.plan = Plan(skip=False, tier=Tier.HYBRID, strategy=strategy, budget=1000)
    return [candidate.chunk.metadata["nodes"] for candidate in run.find_paths()]


@pytest.mark.parametrize(
    ("strategy", "longest"), [(Strategy.HYBRID, 2), (Strategy.RAG, 2), (Strategy.RAG_GRAPH, 3)]
)
def test_a_search_along_the_graph_goes_one_hop_farther(parts, strategy, longest):
    found = paths(parts, "what does falcon use?", strategy, max_hops=2)
    assert max(len(nodes) - 1 for nodes in found) == longest


@pytest.mark.parametrize(
    ("strategy", "kept"), [(Strategy.HYBRID, 3), (Strategy.RAG, 3), (Strategy.RAG_GRAPH, 6)]
)
def test_a_search_along_the_graph_keeps_twice_as_many_paths(parts, strategy, kept):
    assert len(paths(parts, "what does osprey use?", strategy, keep=3)) == kept


def test_without_the_graph_no_paths_are_followed(parts):
    assert paths(parts, "what does falcon use?", Strategy.RAG_GRAPH, graph=False) == []
