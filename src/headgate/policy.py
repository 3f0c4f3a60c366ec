"""Policy: the knobs of one stage, as a value.

Frozen, range-checked, unknown keys refused. Each stage's policy stands beside its function and
inherits from `Policy`; the number types here give every knob its bounds.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Unit = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
PositiveCount = Annotated[int, Field(ge=1)]


class Policy(BaseModel):
    """Base of every stage's policy: immutable, range-checked, closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True
    )


class Limits(Policy):
    """The largest inputs a request may bring; an error names the limit it broke."""

    query_chars: PositiveCount = 100_000
    """Longest query, in characters."""
    window_chars: PositiveCount = 20_000_000
    """Longest window, in characters over all its blocks."""
    window_blocks: PositiveCount = 100_000
    """Most blocks in a window."""
    budget: PositiveCount = 10_000_000
    """Largest token budget of one context."""
    k: PositiveCount = 10_000
    """Most chunks one context may ask for."""
