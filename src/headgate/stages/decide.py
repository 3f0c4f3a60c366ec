"""Decide: is retrieval wanted, and how much?

Two views are joined into one Plan. The window's pressure (used / threshold, or / window) says how much room
memory may take: STUFF below 0.30, HYBRID below 0.70, SELECTIVE above, nothing at all above 0.95. The task and
the size of the content say how it should be loaded (strategy.py).
"""

from dataclasses import dataclass

from headgate.errors import InputError
from headgate.policy import PositiveCount, Tuning
from headgate.stages.strategy import (
    UNKNOWN_SIZE,
    Matching,
    TaskPolicy,
    category_of,
    choose_strategy,
    classify_task,
    has_keyword,
)
from headgate.types import ContextBudget, Plan, Request, Strategy, Tier

__all__ = [
    "ContextBudget",
    "DecidePolicy",
    "Prefetch",
    "Tier",
    "decide",
    "prefetch_params",
    "should_prefetch",
    "strategy_report",
]

SIGNALS = (
    "remember", "recall", "what did", "who is", "last time", "previously", "before", "fact_store",
    "memory", "told you", "mentioned", "said", "project", "config", "setup",
)  # fmt: skip


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
    if base_limit < 0:
        raise InputError(f"base_limit is {base_limit}; it must be 0 or more")
    tier = budget.tier
    if budget.pressure > 0.95:
        return Prefetch(limit=0, min_trust=1.0, tier=tier, skip=True)
    factor, min_trust = {
        Tier.STUFF: (3.0, 0.2),
        Tier.HYBRID: (1.0, 0.3),
        Tier.SELECTIVE: (0.4, 0.5),
    }[tier]
    return Prefetch(max(1, int(base_limit * factor)), min_trust, tier, skip=False)


def should_prefetch(budget: ContextBudget, query: str, *, matching: Matching = "word") -> bool:
    """Below 0.50 always; below 0.80 with a memory signal; above, with a signal in a short query."""
    if budget.pressure < 0.50:
        return True
    signal = has_keyword(query, SIGNALS, matching)
    return signal and (budget.pressure < 0.80 or len(query) < 200)


def strategy_report(budget: ContextBudget) -> str:
    """The window's state in a few lines for a person."""
    params = prefetch_params(budget)
    advice = {
        Tier.STUFF: "Plenty of room: it prefetches generously.",
        Tier.HYBRID: "Some room: it prefetches what is likely to matter.",
        Tier.SELECTIVE: "Hardly any room: it prefetches only what is trusted and asked for.",
    }[params.tier]
    threshold = f"{budget.threshold_tokens:,}" if budget.threshold_tokens else "none"
    return "\n".join((
        f"Tier:      {params.tier.name}",
        f"Pressure:  {budget.pressure:.1%}",
        f"Used:      {budget.used_tokens:,} of {budget.context_length:,} tokens",
        f"Threshold: {threshold}",
        f"Limit:     {params.limit} facts per provider",
        f"Min trust: {params.min_trust}",
        f"Skip:      {'yes' if params.skip else 'no'}",
        "Too little room is left: nothing is prefetched." if params.skip else advice,
    ))  # fmt: skip


def decide(request: Request, policy: DecidePolicy, *, content_tokens: int | None = None) -> Plan:
    """Join pressure and task into one plan. `content_tokens` is what the collection holds."""
    task, group = _task(request, policy)
    window = request.context_budget
    if window is None:
        return Plan(
            skip=False, tier=Tier.HYBRID, strategy=Strategy.HYBRID, budget=request.budget,
            confidence=0.60, task=task, group=group, prefetch=True,
            reasoning="Nothing is known of the window, so retrieve within the budget.",
        )  # fmt: skip
    memory = prefetch_params(window, policy.base_limit)
    choice = choose_strategy(
        context_length=window.context_length, used_tokens=window.used_tokens,
        content_tokens=UNKNOWN_SIZE if content_tokens is None else content_tokens,
        task=task, policy=policy,
    )  # fmt: skip
    strategy, reasoning = choice.strategy, choice.reasoning
    if strategy is Strategy.STUFF and (content_tokens is None or content_tokens > request.budget):
        strategy = Strategy.HYBRID
        reasoning += f" The collection does not fit the request's {request.budget:,} tokens."
    if memory.skip:
        reasoning = f"Pressure is {window.pressure:.1%}, above 95%: nothing is retrieved."
    return Plan(
        skip=memory.skip, tier=memory.tier, strategy=strategy,
        budget=0 if memory.skip else min(request.budget, _room(window, request.budget)),
        limit=memory.limit, min_trust=memory.min_trust, confidence=choice.confidence,
        task=task, group=group, pressure=window.pressure, reasoning=reasoning,
        prefetch=should_prefetch(window, request.query, matching=policy.matching),
    )  # fmt: skip


def _task(request: Request, policy: DecidePolicy) -> tuple[str, str]:
    """The category of the request's task, and the group of keywords; a named crisis counts as one."""
    seen = classify_task(request.query, matching=policy.matching)
    if not request.task:
        return seen.task, seen.group
    named_crisis = request.task == "crisis_intervention"
    return category_of(request.task, policy), "crisis" if named_crisis else seen.group


def _room(window: ContextBudget, wanted: int) -> int:
    """What is left of the window; a window of unknown length leaves what is wanted."""
    if window.context_length == 0:
        return wanted
    return max(0, window.context_length - window.used_tokens)
