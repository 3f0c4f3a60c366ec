"""Decide: every published number of tier and prefetch is a row here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError
from millgate.pipeline.stages.decide import (
    ContextBudget,
    DecidePolicy,
    Tier,
    decide,
    prefetch_params,
    should_prefetch,
)
from millgate.published.context_strategy import SIGNALS
from millgate.types import Request, Strategy


def at(pressure):
    return ContextBudget(1000, round(1000 * pressure))


@pytest.mark.parametrize(
    ("length", "used", "threshold", "pressure", "tier"),
    [
        (0, 500, 0, 0.0, Tier.STUFF),
        (1000, 0, 0, 0.0, Tier.STUFF),
        (1000, 299, 0, 0.299, Tier.STUFF),
        (1000, 300, 0, 0.3, Tier.HYBRID),
        (1000, 699, 0, 0.699, Tier.HYBRID),
        (1000, 700, 0, 0.7, Tier.SELECTIVE),
        (1000, 500, 500, 1.0, Tier.SELECTIVE),
        (1000, 1500, 0, 1.5, Tier.SELECTIVE),
        (1000, 300, 2000, 0.15, Tier.STUFF),
        (1000, -1, 0, 0.0, Tier.STUFF),
        (0, 500, 400, 0.0, Tier.STUFF),
    ],
)
def test_pressure_and_tier(length, used, threshold, pressure, tier):
    budget = ContextBudget(length, used, threshold)
    assert budget.pressure == pytest.approx(pressure)
    assert budget.tier is tier


@pytest.mark.parametrize("field", ["context_length", "threshold_tokens"])
def test_a_negative_window_is_refused_by_name(field):
    with pytest.raises(InputError, match=f"{field} is -5; it must be 0 or more"):
        ContextBudget(**{field: -5})


def test_every_field_of_the_budget_has_a_default():
    budget = ContextBudget()
    assert (budget.context_length, budget.used_tokens, budget.threshold_tokens) == (0, 0, 0)
    assert budget.compression_enabled


def test_without_compression_only_the_window_ends():
    assert ContextBudget(1000, 400, 500).pressure == 0.8
    assert ContextBudget(1000, 400, 500, compression_enabled=False).pressure == 0.4


@pytest.mark.parametrize(
    ("pressure", "base", "limit", "trust", "tier", "skip"),
    [
        (0.0, 5, 15, 0.2, Tier.STUFF, False),
        (0.29, 5, 15, 0.2, Tier.STUFF, False),
        (0.30, 5, 5, 0.3, Tier.HYBRID, False),
        (0.69, 5, 5, 0.3, Tier.HYBRID, False),
        (0.70, 5, 2, 0.5, Tier.SELECTIVE, False),
        (0.95, 5, 2, 0.5, Tier.SELECTIVE, False),
        (0.951, 5, 0, 1.0, Tier.SELECTIVE, True),
        (2.0, 5, 0, 1.0, Tier.SELECTIVE, True),
        (0.80, 1, 1, 0.5, Tier.SELECTIVE, False),
        (0.80, 9, 3, 0.5, Tier.SELECTIVE, False),
    ],
)
def test_prefetch_by_tier(pressure, base, limit, trust, tier, skip):
    params = prefetch_params(at(pressure), base)
    assert (params.limit, params.min_trust, params.tier, params.skip) == (limit, trust, tier, skip)


@pytest.mark.parametrize(
    ("pressure", "query", "wanted"),
    [
        (0.49, "hello", True),
        (0.50, "hello", False),
        (0.50, "do you remember the plan", True),
        (0.79, "what did we agree on", True),
        (0.80, "what did we agree on", True),
        (0.80, "what did we agree on " + "x" * 200, False),
        (0.99, "recall it", True),
        (0.60, "an unsaid thing", False),
    ],
)
def test_when_memory_is_asked(pressure, query, wanted):
    assert should_prefetch(at(pressure), query) is wanted


def test_published_matching_hears_a_signal_anywhere():
    assert should_prefetch(at(0.6), "an unsaid thing", matching="substring")


@pytest.mark.parametrize("signal", SIGNALS)
def test_each_signal_is_heard(signal):
    assert should_prefetch(at(0.6), f"so {signal} it was")


POLICY = DecidePolicy()


def test_without_a_window_there_is_no_pressure():
    plan = decide(Request("who is Ada?", budget=700), POLICY)
    assert (plan.skip, plan.strategy, plan.limit, plan.min_trust) == (False, "HYBRID", None, None)
    assert (plan.budget, plan.prefetch, plan.task) == (700, True, "rag_critical")


def test_a_full_window_skips():
    plan = decide(Request("who is Ada?", context_budget=ContextBudget(1000, 960)), POLICY)
    assert (plan.skip, plan.budget, plan.limit) == (True, 0, 0)
    assert "96.0%" in plan.reasoning


def test_a_collection_that_fits_both_window_and_budget_is_stuffed():
    request = Request("bread", budget=1000, context_budget=ContextBudget(128_000, 0))
    assert decide(request, POLICY, content_tokens=1000).strategy is Strategy.STUFF
    assert decide(request, POLICY, content_tokens=1001).strategy is Strategy.HYBRID
    assert decide(request, POLICY, content_tokens=2_000_000).strategy is Strategy.RAG_GRAPH


@pytest.mark.parametrize(
    ("length", "used", "content", "most"),
    [
        (8_000, 5_000, 100_000, 1_000),  # what the reserve of 25 % leaves
        (8_000, 6_000, 100_000, 600),  # the reserve alone is left: 30 % of what is free
        (80_000, 60_000, 100_000, 4_000),  # ... and at most 4 000
        (80_000, 75_200, 100_000, 1_440),
        (8_000, 5_000, 500, 1_000),  # loaded whole, it keeps the reserve too
        (128_000, 0, 2_000_000, 67_200),  # RAG+GRAPH: 70 % of what is available
        (128_000, 0, 40_000, 28_800),  # HYBRID: 30 %
        (0, 0, 500, 90_000),  # nothing is known of the window
    ],
)
def test_the_budget_keeps_to_the_retrieval_budget_and_to_a_share_of_the_reserve(
    length, used, content, most
):
    request = Request("what is it?", budget=90_000, context_budget=ContextBudget(length, used))
    assert decide(request, POLICY, content_tokens=content, content_chunks=1).budget == most


@given(
    st.integers(1, 200_000),
    st.integers(0, 200_000),
    st.integers(0, 200_000),
    st.integers(0, 3_000_000),
)
def test_whatever_the_window_something_comes_in_up_to_95_percent_and_leaves_space(
    length, used, threshold, content
):
    window = ContextBudget(length, used, threshold)
    request = Request("compare them", budget=50_000, context_budget=window)
    plan = decide(request, POLICY, content_tokens=content, content_chunks=1)
    available, free = length - used - int(length * 0.25), length - used
    assert plan.budget <= max(available, min(4_000, max(1, int(0.3 * free))), 0)
    assert plan.skip == (window.pressure > 0.95 or free <= 0)
    assert bool(plan.budget) != plan.skip


@given(st.integers(1, 200_000), st.integers(0, 3_000_000))
def test_the_fuller_the_window_the_less_comes_in(length, content):
    def budget(used):
        window = ContextBudget(length, used)
        request = Request("compare them", budget=50_000, context_budget=window)
        return decide(request, POLICY, content_tokens=content).budget

    given_tokens = [budget(length * percent // 100) for percent in range(0, 101, 5)]
    assert given_tokens == sorted(given_tokens, reverse=True)


def test_if_no_token_is_free_nothing_is_retrieved_and_the_plan_says_why():
    request = Request("bread", context_budget=ContextBudget(8000, 8000, threshold_tokens=10_000))
    plan = decide(request, POLICY)
    assert (plan.skip, plan.budget, plan.limit, plan.min_trust) == (True, 0, 0, 1.0)
    assert "No token of the window is free" in plan.reasoning


def test_a_collection_of_more_chunks_than_k_is_not_loaded_whole():
    request = Request("write a poem", k=3, context_budget=ContextBudget(128_000, 0))
    assert decide(request, POLICY, content_tokens=100, content_chunks=3).strategy is Strategy.STUFF
    plan = decide(request, POLICY, content_tokens=100, content_chunks=4)
    assert plan.strategy is Strategy.HYBRID
    assert "more chunks than the 3" in plan.reasoning


@pytest.mark.parametrize("task", [None, "conversation", "creative_writing", "translation"])
@pytest.mark.parametrize("used", [0, 7_900, 9_000])
def test_a_crisis_is_neither_stuffed_nor_skipped_whatever_task_is_named(task, used):
    window = ContextBudget(8_000, used)
    request = Request("I want to die", task=task, context_budget=window)
    plan = decide(request, POLICY, content_tokens=100, content_chunks=1)
    assert (plan.skip, plan.group, plan.task) == (False, "crisis", "rag_critical")
    assert plan.in_danger
    assert plan.strategy is not Strategy.STUFF
    assert plan.prefetch
    assert plan.limit
    assert plan.budget == min(1_000, max(0, 8_000 - used))


def test_a_word_of_a_crisis_is_not_skipped_either_and_leaves_space_for_the_answer():
    request = Request("where is the emergency exit?", context_budget=ContextBudget(8_000, 7_900))
    plan = decide(request, POLICY, content_tokens=100, content_chunks=1)
    assert (plan.skip, plan.group, plan.in_danger, plan.budget) == (False, "crisis", False, 30)
    assert plan.prefetch
    assert plan.strategy is not Strategy.STUFF


def test_a_named_task_overrules_the_words_and_reaches_the_crisis_advice():
    plan = decide(Request("hello", task="crisis_intervention"), POLICY)
    assert (plan.task, plan.group, plan.in_danger) == ("rag_critical", "crisis", True)


def test_a_courtesy_is_looked_up_nowhere_and_a_word_is():
    for said in ("thanks, looks good", "hi there!", "ok"):
        plan = decide(Request(said), POLICY)
        assert (plan.skip, plan.budget) == (True, 0)
        assert "nothing is retrieved" in plan.reasoning
    assert not decide(Request("night"), POLICY).skip
