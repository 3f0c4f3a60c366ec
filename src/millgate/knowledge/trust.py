"""Trust: how a fact's trust moves, and how it fades with age."""

from collections.abc import Collection
from dataclasses import replace
from math import isfinite

from millgate.errors import InputError
from millgate.types import Fact, TrustChange

DAY = 86_400.0
HISTORY = 100  # changes of trust kept with a fact: chosen to bound its row, and far more than a reader looks at


def with_trust(fact: Fact, trust: float, reason: str, now: float) -> Fact:
    """The fact with another trust, within 0..1, and the change in its history."""
    new = round(min(1.0, max(0.0, trust)), 6)
    step = TrustChange(now, fact.trust, new, reason)
    return replace(fact, trust=new, updated=now, history=(*fact.history, step)[-HISTORY:])


def decay_factor(fact: Fact, now: float, half_life_days: float) -> float:
    """The factor for the age since a fact was last updated: 1 now, 1/2 after the half-life."""
    age = max(0.0, now - max(fact.updated, fact.created)) / DAY
    return float(0.5 ** (age / half_life_days))


def highest_praise(scopes: Collection[str], reviewed: float, step: float) -> float:
    """As far as a caller's praise may raise a fact: below the trust of a reviewed one, unless the caller may review."""
    return 1.0 if "review" in scopes else reviewed - step


def check_trust(trust: float) -> float:
    """The trust; an error if it is not within 0..1."""
    if not (isfinite(trust) and 0 <= trust <= 1):
        raise InputError(f"trust is {trust}; it must be within 0..1")
    return float(trust)
