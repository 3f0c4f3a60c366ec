"""The plan: how full the model's window is, and what `decide` makes of it."""

from dataclasses import dataclass, replace

from millgate.published import context_strategy
from millgate.published.context_strategy import ContextStrategy as Tier
from millgate.published.context_strategy import Strategy
from millgate.types.check import check_count, check_type

__all__ = ["ContextBudget", "Plan", "Strategy", "Tier"]


@dataclass(frozen=True)
class ContextBudget(context_strategy.ContextBudget):
    """The model's window: its length, what is used, and where compression would begin (0: unknown).

    If the agent does not compress (`compression_enabled` false), the threshold means nothing: only the window ends.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        check_count("context_length", self.context_length)
        check_type("used_tokens", self.used_tokens, int)
        check_count("threshold_tokens", self.threshold_tokens)
        if self.used_tokens < 0:  # some agents say -1 for "unknown"
            object.__setattr__(self, "used_tokens", 0)

    @property
    def pressure(self) -> float:
        """Used over threshold (over the window if there is none); may exceed 1."""
        if self.threshold_tokens and not self.compression_enabled:
            return replace(self, threshold_tokens=0).pressure
        return super().pressure

    @property
    def tier(self) -> Tier:
        """STUFF below 0.30, HYBRID below 0.70, else SELECTIVE."""
        return self.strategy


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
