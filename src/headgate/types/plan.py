"""The plan: how full the model's window is, and what `decide` makes of it."""

from dataclasses import dataclass
from enum import StrEnum

from headgate.errors import InputError
from headgate.types.check import check_type


class Tier(StrEnum):
    """How full the window is: mostly free, half full, or nearly full."""

    STUFF = "stuff"
    HYBRID = "hybrid"
    SELECTIVE = "selective"


class Strategy(StrEnum):
    """How content should reach the model."""

    STUFF = "STUFF"
    HYBRID = "HYBRID"
    RAG = "RAG"
    RAG_GRAPH = "RAG+GRAPH"


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The model's window: its length, what is used, and where compression would begin (0: unknown).

    Where the agent does not compress (`compression_enabled` false), the threshold means nothing: only the window ends.
    """

    context_length: int = 0
    """Length of the model's window, in tokens; 0 if unknown."""
    used_tokens: int = 0
    """Tokens of the window in use; negative if unknown."""
    threshold_tokens: int = 0
    """Where the agent begins to compress, in tokens; 0 if unknown."""
    compression_enabled: bool = True
    """Whether the agent compresses at all."""

    def __post_init__(self) -> None:
        for name in ("context_length", "used_tokens", "threshold_tokens"):
            check_type(name, getattr(self, name), int)
        for name in ("context_length", "threshold_tokens"):
            value = getattr(self, name)
            if value < 0:
                raise InputError(f"{name} is {value}; it must be 0 or more")
        if self.used_tokens < 0:  # some agents say -1 for "unknown"
            object.__setattr__(self, "used_tokens", 0)

    @property
    def pressure(self) -> float:
        """Used over threshold (over the window if there is none); may exceed 1."""
        if self.context_length <= 0:
            return 0.0
        threshold = self.threshold_tokens if self.compression_enabled else 0
        return self.used_tokens / (threshold or self.context_length)

    @property
    def tier(self) -> Tier:
        """STUFF below 0.30, HYBRID below 0.70, else SELECTIVE."""
        if self.pressure < 0.30:
            return Tier.STUFF
        return Tier.HYBRID if self.pressure < 0.70 else Tier.SELECTIVE


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
    reasoning: str = ""
    pressure: float = 0.0
    prefetch: bool = True
