"""Upkeep: what a notebook needs now and then: old facts fade, and wordings of one fact become one.

Both are recorded in the facts' histories. Fading touches a fact, so that doing it twice in a day
lowers trust no more than doing it once.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import isfinite

from headgate.errors import InputError
from headgate.memory.conflicts import same
from headgate.memory.fact_index import distinct
from headgate.memory.facts import Feedback, Notebook, fade, moved
from headgate.types import Fact


@dataclass(frozen=True, slots=True)
class Merge:
    """A fact that was kept, and the ids of its other wordings, which are gone."""

    kept: str
    gone: tuple[str, ...]


def decay(notebook: Notebook, half_life_days: float) -> list[Feedback]:
    """Lower the trust of every fact by its age since it was last touched, for good."""
    if not (isfinite(half_life_days) and half_life_days > 0):
        raise InputError(f"the half-life is {half_life_days} days; it must be above 0")
    now = notebook.now()
    done = []
    for fact in notebook.facts():
        faded = round(fact.trust * fade(fact, now, half_life_days), 6)
        if faded < fact.trust:
            after = notebook.amend(fact.id, partial(_faded, now=now, half_life_days=half_life_days))
            done.append(Feedback(fact.id, fact.trust, after.trust))
    return done


def merge(notebook: Notebook) -> list[Merge]:
    """Join different wordings of one fact into the most trusted, then oldest, of them."""
    gone: set[str] = set()
    merges = []
    for fact in sorted(notebook.facts(), key=lambda f: (-f.trust, f.created, f.id)):
        if fact.id in gone:
            continue
        twins = [other for other in notebook.near(fact) if same(fact, other)]
        if twins:
            # the kept fact is written first: a crash between leaves a repetition, never a loss
            notebook.amend(fact.id, partial(_joined, twins=twins, now=notebook.now()))
            for twin in twins:
                notebook.forget(twin.id)
            gone |= {twin.id for twin in twins}
            merges.append(Merge(fact.id, tuple(twin.id for twin in twins)))
    return merges


def _faded(fact: Fact, *, now: float, half_life_days: float) -> Fact:
    return moved(fact, fact.trust * fade(fact, now, half_life_days), "decay", now)


def _joined(fact: Fact, *, twins: list[Fact], now: float) -> Fact:
    joined = replace(
        fact,
        tags=distinct(fact.tags, *(twin.tags for twin in twins)),
        entities=distinct(fact.entities, *(twin.entities for twin in twins)),
        helpful=fact.helpful + sum(twin.helpful for twin in twins),
        unhelpful=fact.unhelpful + sum(twin.unhelpful for twin in twins),
        recalled=fact.recalled + sum(twin.recalled for twin in twins),
        created=min(fact.created, *(twin.created for twin in twins)),
    )
    return moved(joined, fact.trust, f"merged {', '.join(twin.id for twin in twins)}", now)
