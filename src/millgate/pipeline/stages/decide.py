"""Decide: is retrieval wanted, and how much?

Two views are joined into one Plan. The window's pressure (used / threshold, or / window) says how many tokens
memory may take: STUFF below 0.30, HYBRID below 0.70, SELECTIVE above, nothing at all above 0.95. The task and
the size of the content say how it should be loaded (strategy.py). A quarter of the window is held back from what is
loaded whole. What is searched keeps to the strategy's retrieval budget; when that runs out, a share of what is free
still comes in, so that up to 0.95 it is never nothing. A crisis is neither stuffed nor skipped.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from millgate.pipeline.stages.strategy import (
    TaskClass,
    TaskPolicy,
    category_of,
    choose_strategy,
    classify_task,
    retrieval_budget,
)
from millgate.published import context_strategy
from millgate.published.context_strategy import (
    CRISIS,
    GROUPS,
    HYBRID_SHARE,
    MIN_RETRIEVAL_BUDGET,
    compute_prefetch_params,
    estimate_content_tokens,
)
from millgate.text.wanted import is_courtesy
from millgate.types import ContextBudget, Plan, Request, Strategy, Tier
from millgate.types.check import check_count
from millgate.types.policy import PositiveCount, Tuning

__all__ = [
    "ContextBudget",
    "DecidePolicy",
    "Prefetch",
    "Tier",
    "decide",
    "prefetch_params",
    "should_prefetch",
    "window_state",
]


class DecidePolicy(TaskPolicy):
    """How a request is read, and how much memory may give."""

    base_limit: Tuning[PositiveCount] = 5
    """Facts per memory provider before the tier's factor."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """How much each memory provider may give: facts, least trust, or nothing at all."""

    limit: int
    min_trust: float
    tier: Tier
    skip: bool


def prefetch_params(budget: ContextBudget, base_limit: int = 5) -> Prefetch:
    """Facts per provider and least trust by tier; skip above 0.95 pressure."""
    check_count("base_limit", base_limit)
    params = compute_prefetch_params(budget, base_limit)
    return Prefetch(params["limit"], params["min_trust"], params["strategy"], params["skip"])


# below 0.50 always; below 0.80 with a memory signal at a word's start; above, with a signal in a short query
should_prefetch = partial(context_strategy.should_prefetch, matching="word")


def window_state(window: ContextBudget, policy: DecidePolicy) -> dict[str, Any]:
    """How full the window is and what memory providers may give, as plain values."""
    params = prefetch_params(window, policy.base_limit)
    return {
        "tier": params.tier.name,
        "pressure": window.pressure,
        "limit": params.limit,
        "min_trust": params.min_trust,
        "skip": params.skip,
    }


def decide(
    request: Request,
    policy: DecidePolicy,
    *,
    content_tokens: int | None = None,
    content_chunks: int | None = None,
) -> Plan:
    """Join pressure and task into one plan. `content_tokens` and `content_chunks` are what the collections hold."""
    task = _task(request, policy)
    is_crisis = task.group == CRISIS
    window = request.context_budget
    if is_courtesy(request.query) and not is_crisis:
        return Plan(
            skip=True, tier=Tier.HYBRID, strategy=Strategy.HYBRID, budget=0, task=task.task, group=task.group,
            reasoning="The message is a greeting, thanks or an answer: nothing is retrieved.",
        )  # fmt: skip
    if window is None:
        return Plan(
            skip=False, tier=Tier.HYBRID, strategy=Strategy.HYBRID, budget=request.budget,
            confidence=0.60, task=task.task, group=task.group, in_danger=task.in_danger, prefetch=True,
            reasoning="The size of the window is not known, so retrieve within the budget.",
        )  # fmt: skip
    choice = choose_strategy(
        context_length=window.context_length, used_tokens=window.used_tokens,
        content_tokens=estimate_content_tokens() if content_tokens is None else content_tokens,
        task=task.task, policy=policy,
    )  # fmt: skip
    strategy, reasoning = choice.strategy, choice.reasoning
    too_much = _too_much_to_stuff(request, content_tokens, content_chunks)
    if strategy is Strategy.STUFF and too_much:
        strategy, reasoning = Strategy.HYBRID, f"{reasoning} {too_much}"
    most = _most_tokens(window, strategy, choice.available_budget, in_danger=task.in_danger)
    budget = int(min(request.budget, most))
    memory = prefetch_params(window, policy.base_limit)
    if is_crisis and memory.skip:
        # as in the last tier before nothing is given
        memory = prefetch_params(ContextBudget(100, 95), policy.base_limit)
    elif not is_crisis and not memory.skip and budget == 0 < request.budget:
        memory = Prefetch(limit=0, min_trust=1.0, tier=memory.tier, skip=True)
        reasoning = f"{reasoning} No token of the window is free: nothing is retrieved."
    elif memory.skip:
        reasoning = f"Pressure is {window.pressure:.1%}, above 95%: nothing is retrieved."
    wanted = should_prefetch(window, request.query, matching=policy.matching)
    return Plan(
        skip=memory.skip, tier=memory.tier, strategy=strategy,
        budget=0 if memory.skip else budget,
        limit=memory.limit, min_trust=memory.min_trust, confidence=choice.confidence,
        task=task.task, group=task.group, in_danger=task.in_danger, pressure=window.pressure,
        reasoning=reasoning, prefetch=wanted or is_crisis,
    )  # fmt: skip


def _task(request: Request, policy: DecidePolicy) -> TaskClass:
    """What kind of task the request is. A crisis stays one, whatever task is named."""
    seen = classify_task(request.query, matching=policy.matching)
    if request.task == "crisis_intervention":
        return TaskClass(GROUPS[CRISIS][0], CRISIS, in_danger=True)
    if not request.task or seen.group == CRISIS:
        return seen
    return TaskClass(category_of(request.task, policy), seen.group)


def _too_much_to_stuff(request: Request, tokens: int | None, chunks: int | None) -> str:
    """Why the collections cannot be loaded whole for this request; "" when they can."""
    if tokens is None or tokens > request.budget:
        return f"The collection does not fit the request's {request.budget:,} tokens."
    if request.k is not None and (chunks is None or chunks > request.k):
        return f"The collection has more chunks than the {request.k:,} that the request takes."
    return ""


def _most_tokens(
    window: ContextBudget, strategy: Strategy, available: int, *, in_danger: bool
) -> int | float:
    """The most tokens that may be injected into the window.

    What is loaded whole keeps the reserve free, and retrieval keeps to its budget. Once the reserve alone is left,
    retrieval may take a share of what is free, up to the least that a retrieval budget is. For a person in danger it
    may take what is left to the last token. A window of unknown length sets no bound.
    """
    if window.context_length == 0:
        return math.inf
    free = max(0, window.context_length - window.used_tokens)
    if in_danger:
        return free
    wanted = available if strategy is Strategy.STUFF else retrieval_budget(strategy, available)
    # the share that HYBRID takes of what is available: the rest is for the answer
    share = min(free, max(1, int(HYBRID_SHARE * free)))
    return max(wanted, min(MIN_RETRIEVAL_BUDGET, share))
