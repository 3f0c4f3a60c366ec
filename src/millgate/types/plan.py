"""The plan: how full the model's window is, and what `decide` makes of it."""

from dataclasses import dataclass

from millgate.published.context_strategy import ContextBudget, Strategy, Tier

__all__ = ["ContextBudget", "Plan", "Strategy", "Tier"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What `decide` made of a request: whether to retrieve, how much, and why."""

    skip: bool
    tier: Tier
    strategy: Strategy
    budget: int
    limit: int | None = None
    min_trust: float | None = None
    confidence: float = 0.0
    task: str = "unknown"
    group: str = ""
    in_danger: bool = False
    """Whether the query tells of a person in danger, so that a person must see it."""
    reasoning: str = ""
    pressure: float = 0.0
    prefetch: bool = True
