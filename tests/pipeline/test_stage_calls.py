"""The engine: how each stage is called for one request."""

import asyncio
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from tests.building import build, engine_over

from millgate import Millgate
from millgate.calls.loop import BackgroundLoop, LoopCalls
from millgate.errors import StoreError, UpstreamError
from millgate.gateway import wiring
from millgate.knowledge.edges import edge
from millgate.knowledge.paths import GraphPolicy
from millgate.pipeline.engine import RequestRun
from millgate.pipeline.resources import Policies
from millgate.pipeline.stages.retrieve import RetrievePolicy
from millgate.settings import Settings
from millgate.types import ContextBudget, Plan, Request, Strategy, Tier
from millgate.types.notes import Stage


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
    engine = engine_over(parts.store, parts.indexes.snapshot, policy)
    calls = LoopCalls(BackgroundLoop())
    run = RequestRun(engine.resources, policy, Request(query, graph=graph), calls)
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


TEXTS = ("A lake without fish.", "The zither has many strings.", "A zither.", "Stones and rivers.")


def load_whole(gate, keep):
    """The score of each chunk of a collection that is loaded whole."""
    policy = Policies(**{f.name: getattr(gate.settings, f.name) for f in fields(Policies)})
    policy = replace(policy, retrieve=RetrievePolicy(keep=keep))
    engine = engine_over(gate.store, lambda *_: gate.index(), policy)
    window = ContextBudget(200_000, 0)
    made = asyncio.run(build(engine, Request("write of a zither", context_budget=window)))
    assert made.strategy == "STUFF"
    candidates = made.trace.candidates
    return {c.chunk.id: c.notes[0].score for c in sorted(candidates, key=lambda c: c.chunk.id)}


@pytest.fixture
def whole():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": f"c{n}", "text": text} for n, text in enumerate(TEXTS)])
        yield gate


def test_what_is_loaded_whole_has_the_score_that_retrieval_gives_it(whole):
    scores = load_whole(whole, keep=100)
    assert list(scores) == ["c0", "c1", "c2", "c3"]
    assert scores["c2"] == 1.0
    assert 0 < scores["c1"] < 1
    assert scores["c0"] == scores["c3"] == 0


def test_all_that_is_loaded_whole_has_its_score_however_few_retrieval_keeps(whole):
    assert load_whole(whole, keep=1) == load_whole(whole, keep=100)


def test_without_an_index_all_that_is_loaded_whole_scores_alike(whole):
    def broken(tenant, collection, query):
        raise StoreError("the index is gone")

    policy = Policies(**{f.name: getattr(whole.settings, f.name) for f in fields(Policies)})
    engine = engine_over(whole.store, broken, policy)
    request = Request("write a poem", budget=5000, context_budget=ContextBudget(200_000, 0))
    made = asyncio.run(build(engine, request))
    assert {c.notes[0].score for c in made.trace.candidates} == {1.0}
    assert len(made.chunks) == len(TEXTS)


class Embedder:
    """An embedder that works until it is down."""

    name, dimension, is_down = "own/1", 2, False

    def embed(self, texts):
        if self.is_down:
            raise UpstreamError("the embedder is down")
        return np.array([[1.0, 0.0] for _ in texts], np.float32)


def test_a_second_pass_goes_on_by_words_if_the_embedder_fails():
    alert, embedder = "A zebra alert is raised at dawn.", Embedder()
    with Millgate.open(":memory:", embedder=embedder) as gate:
        gate.add([{"id": f"g{n}", "text": f"Gate {n} of the garden is shut."} for n in range(20)])
        gate.add([{"id": "seen", "text": alert}])
        gate.index()
        embedder.is_down = True
        trace = gate.context("zebra", window=[alert]).trace
    steps = {step.stage: step.degraded for step in trace.steps}
    assert steps[Stage.EMBED] == "the embedder is down"
    assert steps[Stage.EXPAND] == ""
