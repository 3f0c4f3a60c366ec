"""Memory in the pipeline: facts, providers and paths reach the context within the plan, or say why not."""

import asyncio

import pytest

from millgate import ContextBudget, Millgate
from millgate.knowledge.memory import TENANTS_HELD, Memory
from millgate.knowledge.providers import ProviderPool
from millgate.stores.temporary import TemporaryStore
from millgate.types import Edge, Plan, Request, Sifted, Strategy, Tier


def plan(**changes) -> Plan:
    base = {"skip": False, "tier": Tier.HYBRID, "strategy": Strategy.HYBRID, "budget": 1000}
    return Plan(**base | changes)


class Provider:
    name = "diary"

    def __init__(self, answer):
        self.answer = answer

    def prefetch(self, query):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        yield gate


def test_facts_and_answers_are_recalled():
    memory = Memory(TemporaryStore(), ProviderPool([Provider("- we deploy on Fridays")]))
    fact = memory.facts("t").add("Deploys go to Frankfurt").fact
    request = Request("where do deploys go?", tenant="t")
    facts, done = (
        memory.recall_facts(request, plan()),
        asyncio.run(memory.ask_providers(request, plan())),
    )
    said = {fact.content: facts, "we deploy on Fridays": done.sifted}
    for text, sifted in said.items():
        assert [c.chunk.text for c in sifted.kept] == [text]
        assert set(sifted.added) == {*sifted.kept, *sifted.dropped}
    assert done.degraded == ()


def test_facts_and_answers_reach_the_context_together():
    with Millgate.open(":memory:", providers=[Provider("- we deploy on Fridays")]) as gate:
        gate.remember("Deploys go to Frankfurt")
        made = gate.context("where do deploys go, and when do we deploy?", budget=300)
    assert {c.text for c in made.chunks} == {"Deploys go to Frankfurt", "we deploy on Fridays"}


@pytest.mark.parametrize(
    ("query", "changes"),
    [("hello!", {}), ("deploys?", {"skip": True}), ("deploys?", {"prefetch": False})],
)
def test_nothing_is_recalled_when_nothing_is_wanted(query, changes):
    memory = Memory(TemporaryStore(), ProviderPool([Provider(ValueError("it was asked"))]))
    memory.facts("t").add("hello deploys")
    request = Request(query, tenant="t")
    assert memory.recall_facts(request, plan(**changes)) == Sifted()
    assert asyncio.run(memory.ask_providers(request, plan(**changes))).sifted == Sifted()
    assert memory.providers.failures_in_a_row() == {"diary": 0}


def test_facts_are_held_for_a_bounded_number_of_tenants():
    memory = Memory(TemporaryStore())
    first = memory.facts("t0")
    assert memory.facts("t0") is first
    others = [memory.facts(f"t{n + 1}") for n in range(TENANTS_HELD - 1)]
    assert memory.facts("t0") is first
    memory.facts("one more")
    assert memory.facts("t1") is not others[0]
    assert memory.facts("t0") is first


def test_a_remembered_fact_reaches_the_context(gate):
    fact = gate.remember("The staging server is called Heron", tags=["ops"]).fact
    made = gate.context("what is the staging server called?", budget=200)
    assert "Heron" in made.text
    assert [chunk.id for chunk in made.chunks] == [fact.id]
    assert made.chunks[0].source == "memory"
    assert made.admissibility_token is None
    assert "relevance" in made.why(fact.id)[0].reason


def test_a_fact_of_little_trust_is_dropped_with_its_reason(gate):
    fact = gate.remember("The staging server is called Heron").fact
    for _ in range(3):
        gate.feedback(fact.id, helpful=False)
    made = gate.context("what is the staging server called?", budget=200)
    assert made.chunks == ()
    assert made.why(fact.id)[-1].reason == "trust 0.20 below 0.30"


def test_the_plan_bounds_memory_under_pressure(gate):
    for n in range(9):
        gate.remember(f"project setting number {n}", trust=0.6)
    tight = ContextBudget(10_000, used_tokens=7_100)
    made = gate.context("which project setting?", context_budget=tight, budget=500)
    assert len(made.chunks) == 2  # SELECTIVE: int(5 x 0.4)
    full = ContextBudget(10_000, used_tokens=9_600)
    assert gate.context("which project setting?", context_budget=full).chunks == ()


def test_paths_of_named_things_reach_the_context(gate):
    gate.graph.link([Edge("payments", "depends_on", "ledger", provenance="arch.md")])
    made = gate.context("why is payments slow?", budget=200)
    assert made.graph_context == ("payments -[depends_on]-> ledger",)
    assert gate.context("why is payments slow?", budget=200, graph=False).graph_context == ()


def test_a_provider_that_fails_is_said():
    with Millgate.open(":memory:", providers=[Provider(OSError("down"))]) as gate:
        made = gate.context("where do deploys go?")
    assert made.degraded == ("memory: diary: failed: OSError: down",)


def test_what_was_said_is_recalled_through_the_same_pipeline(gate):
    talk = [
        {
            "role": "user",
            "content": "My sister Ann moved to Lisbon last spring.",
            "time": 1_700_000_000,
        },
        {"role": "assistant", "content": "How does she like it there?"},
        {"role": "user", "content": "She loves the trams."},
        {"role": "user", "content": "Anyway, let us fix the parser."},
    ]
    assert gate.add_turns("s1", talk).new == 4
    assert gate.add_turns("s1", talk).new == 0
    made = gate.context("where did Ann move to?", collection="turns", budget=120)
    assert "Lisbon" in made.chunks[0].text
    assert made.chunks[0].source == "turn"


def test_recall_counts_and_ranks(gate):
    fact = gate.remember("Deploys go to Frankfurt").fact
    (hit,) = gate.recall("deploys")
    assert hit.fact.id == fact.id
    assert gate.facts.get(fact.id).recalled == 1
    assert gate.recall("unrelated words") == []
