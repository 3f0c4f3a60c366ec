"""Hop: from the best chunks to others that share a rare proper name with them.

The answer to "who founded the club that X plays for" stands in a chunk that the query's words do not
reach, but the chunk about X names the club. Each seed spreads its mass (its score, squared) over its
names by idf; a name gives its mass to the chunks that hold it, fewer chunks getting more:

    m(e) = Σ_seeds (s_i / s_1)² · idf(e) / Σ idf        x(d) = Σ_e m(e) ([e in d] / df^γ + τ [e in title] / dft^γ)

A seed's own mass does not return to it. The cost follows the seeds' names; common names fan out to nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.protocols import Hits, Postings
from headgate.rank.fields import IN_BODY, IN_TITLE
from headgate.rank.lexical import Floats, Ints, Keys, within


@dataclass(frozen=True, slots=True)
class Names:
    """The rare proper names of some seeds: who holds each, and how many do."""

    keys: Keys
    owned: npt.NDArray[np.bool_]  # seed × name
    ords: Ints
    which: Ints  # index into keys, per posting
    inside: npt.NDArray[np.bool_]
    titled: npt.NDArray[np.bool_]
    counts: Ints
    title_counts: Ints


@dataclass(frozen=True, slots=True)
class Reach:
    """The chunks that were reached (ascending), how strongly, and through which of the names."""

    ords: Ints
    force: Floats
    through: Ints


def gather(
    view: Postings, seeds: Ints, *, limit: int, share: float, extra: Keys | None = None
) -> Names:
    """The proper names of the seeds (and extra ones, proper or not) that stand in at most `limit` chunks."""
    mine = view.names(seeds)
    own = np.unique(np.concatenate(mine)) if mine else np.zeros(0, np.uint64)
    given = np.zeros(0, np.uint64) if extra is None else extra
    keys = np.union1d(own, given)
    hits = view.named(keys, limit=limit)
    fits = (hits.counts > 0) & within(own, keys)
    fits[fits] = view.proper(keys[fits], share=share)
    fits |= (hits.counts > 0) & within(given, keys)
    hits = _only(hits, fits)
    keys = keys[fits]
    which = np.repeat(np.arange(len(keys)), hits.counts)
    places = IN_BODY if view.conversational else 0xFFFF
    inside = (hits.values & places) > 0
    titled = (hits.values & IN_TITLE) > 0
    owned = np.zeros((len(mine), len(keys)), bool)
    for row, held in zip(owned, mine, strict=True):
        row[np.searchsorted(keys, held[within(keys, held)])] = True
    return Names(
        keys,
        owned,
        hits.ords,
        which,
        inside,
        titled,
        np.bincount(which[inside], minlength=len(keys)),
        np.bincount(which[titled], minlength=len(keys)),
    )


def _only(hits: Hits, fits: npt.NDArray[np.bool_]) -> Hits:
    stays = np.repeat(fits, hits.counts)
    return Hits(hits.ords[stays], hits.values[stays], hits.counts[fits])


def masses(view: Postings, names: Names, strength: Floats, *, without: Keys) -> Floats:
    """How much of each seed's mass goes to each of its names (seed × name)."""
    useful = (names.counts >= 2) & ~within(without, names.keys)
    share = np.log(view.count / np.maximum(names.counts, 1)) * useful
    spread = names.owned * share
    total = spread.sum(1, keepdims=True)
    spread = np.divide(spread, total, out=np.zeros_like(spread), where=total > 0)
    return np.asarray(spread * ((strength / strength[0]) ** 2)[:, None], np.float64)


def spread(
    names: Names,
    mass: Floats,
    seeds: Ints,
    *,
    gamma: float,
    title: float,
    given: Mapping[int, float] | None = None,
) -> Reach:
    """Send the names' mass to the chunks that hold them; `given` adds mass to names by key."""
    total = mass.sum(0)
    for key, more in (given or {}).items():
        total[names.keys == key] += more
    per = names.inside * np.maximum(names.counts, 1)[names.which] ** -gamma
    per = per + title * names.titled * np.maximum(names.title_counts, 1)[names.which] ** -gamma
    part = total[names.which] * per
    order = np.lexsort((part, names.ords))  # by chunk, the strongest name last
    ranked = names.ords[order]
    last = np.append(ranked[1:] != ranked[:-1], True) if len(ranked) else ranked > 0
    ends = np.flatnonzero(last)
    ords, through = ranked[ends], names.which[order[ends]]
    begins = np.append(0, ends[:-1] + 1)[: len(ends)]
    force = np.add.reduceat(part[order], begins) if len(ends) else np.zeros(0)
    for index, seed in enumerate(seeds):
        here = names.ords == seed
        force[ords == seed] -= (mass[index, names.which[here]] * per[here]).sum()
    reached = force > 1e-12
    return Reach(ords[reached], force[reached], through[reached])
