"""Maintenance of facts: lower the trust of old ones, and merge different wordings of one fact.

Both are recorded in the facts' histories. Decay updates a fact, so that doing it twice in a day
lowers trust no more than doing it once.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import isfinite

from headgate.errors import InputError
from headgate.memory.conflicts import is_same_fact
from headgate.memory.fact_index import unique_names
from headgate.memory.facts import Facts, Feedback
from headgate.memory.trust import decay_factor, with_trust
from headgate.types import Fact


@dataclass(frozen=True, slots=True)
class Merge:
    """A fact that was kept, and the ids of its other wordings, which are gone."""

    kept: str
    gone: tuple[str, ...]


def decay(facts: Facts, half_life_days: float) -> list[Feedback]:
    """Lower the trust of every fact by its age since it was last updated, for good."""
    if not (isfinite(half_life_days) and half_life_days > 0):
        raise InputError(f"the half-life is {half_life_days} days; it must be above 0")
    now = facts.now()
    done = []
    for fact in facts.all():
        trust = round(fact.trust * decay_factor(fact, now, half_life_days), 6)
        if trust < fact.trust:
            after = facts.amend(
                fact.id, partial(_decay_fact, now=now, half_life_days=half_life_days)
            )
            done.append(Feedback(fact.id, fact.trust, after.trust))
    return done


def merge(facts: Facts) -> list[Merge]:
    """Join different wordings of one fact into the most trusted, then oldest, of them."""
    gone: set[str] = set()
    merges = []
    for fact in sorted(facts.all(), key=lambda f: (-f.trust, f.created, f.id)):
        if fact.id in gone:
            continue
        copies = [other for other in facts.similar(fact) if is_same_fact(fact, other)]
        if copies:
            # the kept fact is written first: a crash in between leaves a copy and loses nothing
            facts.amend(fact.id, partial(_join, copies=copies, now=facts.now()))
            for copy in copies:
                facts.forget(copy.id)
            gone |= {copy.id for copy in copies}
            merges.append(Merge(fact.id, tuple(copy.id for copy in copies)))
    return merges


def _decay_fact(fact: Fact, *, now: float, half_life_days: float) -> Fact:
    return with_trust(fact, fact.trust * decay_factor(fact, now, half_life_days), "decay", now)


def _join(fact: Fact, *, copies: list[Fact], now: float) -> Fact:
    merged = replace(
        fact,
        tags=unique_names(fact.tags, *(copy.tags for copy in copies)),
        entities=unique_names(fact.entities, *(copy.entities for copy in copies)),
        helpful=fact.helpful + sum(copy.helpful for copy in copies),
        unhelpful=fact.unhelpful + sum(copy.unhelpful for copy in copies),
        recalled=fact.recalled + sum(copy.recalled for copy in copies),
        created=min(fact.created, *(copy.created for copy in copies)),
    )
    return with_trust(merged, fact.trust, f"merged {', '.join(copy.id for copy in copies)}", now)
