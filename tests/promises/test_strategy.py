"""Context strategy: the nineteen statements of the published design, and the same through the front doors."""

import json

import pytest
from click.testing import CliRunner

from millgate import ContextBudget as Window
from millgate import Millgate
from millgate.cli import app
from millgate.integrations.hermes.manager import MemoryManager as HermesMemory
from millgate.pipeline.stages.decide import prefetch_params
from millgate.pipeline.stages.strategy import context_strategy
from millgate.published.context_strategy import (
    ContextBudget,
    ContextStrategy,
    MemoryManager,
    build_strategy_report,
    compute_prefetch_params,
    should_prefetch,
)


def window_with(used):
    """A window of 256 000 tokens that is compressed at 128 000."""
    return ContextBudget(context_length=256_000, used_tokens=used, threshold_tokens=128_000)


FREE, HALF, TIGHT, TIGHTER, FULL = map(window_with, (10_000, 64_000, 100_000, 110_000, 125_000))
BUSY = window_with(80_000)


def test_a_window_with_little_in_it_has_little_pressure():
    assert FREE.pressure < 0.1


def test_at_the_threshold_the_pressure_is_one():
    assert window_with(128_000).pressure == pytest.approx(1.0)


def test_a_window_of_unknown_length_has_no_pressure():
    assert ContextBudget(context_length=0, used_tokens=0, threshold_tokens=0).pressure == 0.0


def test_below_a_threshold_that_does_not_count_the_published_pressure_counts_it_all_the_same():
    unpressed = (1000, 400, 500, False)
    assert ContextBudget(*unpressed).pressure == 0.8
    assert Window(*unpressed).pressure == 0.4


@pytest.mark.parametrize(("window", "strategy"), [(FREE, "STUFF"), (HALF, "HYBRID"), (TIGHT, "SELECTIVE")])  # fmt: skip
def test_the_pressure_chooses_the_strategy(window, strategy):
    assert window.strategy is ContextStrategy[strategy]
    assert window.label == strategy.lower()


@pytest.mark.parametrize(("window", "limit", "min_trust"), [(FREE, 15, 0.2), (HALF, 5, 0.3), (TIGHT, 2, 0.5)])  # fmt: skip
def test_the_fuller_the_window_the_fewer_and_surer_the_facts(window, limit, min_trust):
    params = compute_prefetch_params(window)
    assert (params["limit"], params["min_trust"], params["skip"]) == (limit, min_trust, False)
    assert params["strategy"] is window.strategy
    assert prefetch_params(window).limit == limit


def test_a_window_that_is_nearly_full_takes_no_facts():
    params = compute_prefetch_params(FULL)
    assert (params["limit"], params["min_trust"], params["skip"]) == (0, 1.0, True)


def test_the_limit_grows_with_its_base_and_is_never_less_than_one():
    assert compute_prefetch_params(FREE, base_limit=10)["limit"] == 30
    assert compute_prefetch_params(TIGHT, base_limit=1)["limit"] == 1


@pytest.mark.parametrize(
    ("window", "query", "wanted"),
    [
        (FREE, "anything at all", True),
        (FREE, "", True),
        (BUSY, "what did we discuss about the config?", True),
        (BUSY, "do you remember the day we set up the server?", True),
        (BUSY, "write me a poem about clouds", False),
        (TIGHTER, "who is Alexander?", True),
        (TIGHTER, "write a long essay on how computers came about " * 10, False),
        (TIGHTER, "who is Alexander? " * 12, False),
        (BUSY, None, False),
    ],
)
def test_under_pressure_only_a_question_that_asks_for_memory_gets_some(window, query, wanted):
    assert should_prefetch(window, query) is wanted


@pytest.mark.parametrize(("window", "said"), [(HALF, ("HYBRID", "50.0%")), (FREE, ("STUFF", "generously"))])  # fmt: skip
def test_the_report_says_strategy_pressure_and_advice(window, said):
    report = build_strategy_report(window)
    assert all(word in report for word in said)


def test_the_report_has_a_line_for_each_number():
    lines = [line.strip() for line in build_strategy_report(TIGHT).splitlines()]
    assert lines[:7] == [
        "Context Strategy: SELECTIVE",
        "Pressure: 78.1%",
        "Used: 100,000 / 256,000 tokens",
        "Threshold: 128,000 tokens",
        "Prefetch limit: 2 facts",
        "Min trust: 0.5",
        "Skip prefetch: False",
    ]


# -- a memory of several providers ----------------------------------------------------------------


class Facts:
    name = "facts"

    def __init__(self):
        self.asked = []

    def is_available(self):
        return True

    def prefetch(self, query, *, session_id="", limit=None, min_trust=None):
        self.asked.append((limit, min_trust))
        return "The shop opens at nine."


class Older(Facts):
    name = "older"

    def prefetch(self, query, *, session_id=""):
        return "An older memory answers too."


class Broken(Facts):
    name = "broken"

    def prefetch(self, query, *, session_id="", limit=None, min_trust=None):
        raise OSError("the disk is gone")


@pytest.mark.parametrize("make", [MemoryManager, HermesMemory])
def test_a_memory_gives_what_the_window_allows_and_one_provider_blocks_no_other(make):
    memory, facts = make(), Facts()
    for provider in (Broken(), facts, Older()):
        memory.add_provider(provider)
    assert "opens at nine" in memory.prefetch_all("what did we say?")
    memory.set_context_budget(256_000, 80_000, 128_000)
    recalled = memory.prefetch_all("what did we say?", session_id="s")
    assert "opens at nine" in recalled
    assert "older memory" in recalled
    assert facts.asked == [(None, None), (5, 0.3)]
    assert memory.prefetch_all("write me a poem about clouds") == ""
    memory.set_context_budget(256_000, 125_000, 128_000)
    assert memory.prefetch_all("what did we say?") == ""
    assert len(facts.asked) == 2


# -- the front doors --------------------------------------------------------------------------------


def test_the_command_prints_the_report_and_the_numbers():
    options = ["--context-length", "256000", "--used-tokens", "64000", "--threshold-tokens", "128000"]  # fmt: skip
    said = CliRunner().invoke(app, ["strategy", "compare the plans", *options]).stdout
    assert "Context Strategy: HYBRID" in said
    assert "50.0%" in said
    made = json.loads(CliRunner().invoke(app, ["strategy", "compare the plans", *options, "--json"]).stdout)  # fmt: skip
    assert (made["limit"], made["min_trust"], made["skip"]) == (5, 0.3, False)


def test_the_agent_tool_answers_as_published():
    answer = context_strategy("compare the plans", content_size_hint="large")
    assert (answer["strategy"], answer["confidence"]) == ("HYBRID", 0.75)
    assert answer["task_type"] == "hybrid"


@pytest.mark.parametrize(
    ("used", "query", "asked"),
    [
        (10_000, "refunds for customers", [(15, 0.2)]),
        (64_000, "refunds as I told you", [(5, 0.3)]),
        (80_000, "refunds for customers", []),
        (100_000, "refunds as I told you", [(2, 0.5)]),
        (125_000, "refunds as I told you", []),
    ],
)
def test_a_context_asks_memory_for_what_the_window_allows(used, query, asked):
    facts = Facts()
    with Millgate.open(":memory:", providers=[facts]) as gate:
        gate.add([{"id": "refunds", "text": "Refunds are paid within 14 days to the card."}])
        context = gate.context(query, context_budget=Window(256_000, used, 128_000))
    assert facts.asked == asked
    assert bool(context.chunks) == (used < 125_000)


@pytest.mark.parametrize("used", [10_000, 100_000, 125_000, 255_000])
def test_a_crisis_is_never_stuffed_and_never_skipped(used):
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "line", "text": "Whoever wants to end their life can call 988 at night."}])
        context = gate.context(
            "I want to end my life, whom can I call?",
            context_budget=Window(256_000, used, 128_000),
        )
    assert [chunk.id for chunk in context.chunks] == ["line"]
    assert context.trace.plan.strategy != "STUFF"
