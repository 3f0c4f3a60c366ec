"""Hop: from the best chunks to others that share a rare proper name with them.

The answer to "who founded the club that X plays for" stands in a chunk that the query's words do not
reach, but the chunk about X names the club. Each seed spreads its mass (its score, squared) over its
names by idf; a name gives its mass to the chunks that hold it, fewer chunks getting more:

    m(e) = Σ_seeds (s_i / s_1)² · idf(e) / Σ idf        x(d) = Σ_e m(e) ([e in d] / df^γ + τ [e in title] / dft^γ)

A seed's own mass does not return to it. The cost follows the seeds' names; common names fan out to nobody.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.protocols import Hits, Postings
from headgate.rank.fields import IN_BODY, IN_TITLE
from headgate.rank.lexical import Floats, Ints, Keys, within

NONE = np.zeros(0, np.uint64)
_POSTING = 31  # bits for the number of a posting below that of its chunk


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
    """The chunks that were reached, ascending, and how strongly."""

    ords: Ints
    force: Floats


def gather(
    view: Postings,
    seeds: Ints,
    *,
    limit: int,
    share: float,
    extra: Keys = NONE,
    query: Keys = NONE,
) -> Names:
    """The proper names of the seeds that lead on (2 to `limit` chunks) or that the query names; and extra ones."""
    mine = view.names(seeds)
    own = np.unique(np.concatenate(mine)) if mine else np.zeros(0, np.uint64)
    keys = np.union1d(own, extra) if len(extra) else own
    hits = view.named(keys, limit=limit)
    fits = ((hits.counts > 1) | ((hits.counts > 0) & within(query, keys))) & within(own, keys)
    fits[fits] = view.proper(keys[fits], share=share)
    fits |= (hits.counts > 0) & within(extra, keys)
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


def spread(names: Names, flow: Floats, mass: Floats, total: Floats, seeds: Ints) -> Reach:
    """Send what flows through each posting to its chunk; a seed does not get back what it gave."""
    numbered = np.sort(
        (names.ords << _POSTING) | np.arange(len(names.ords))
    )  # twice as fast as argsort
    order, ranked = numbered & ((1 << _POSTING) - 1), numbered >> _POSTING
    begins = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])) if len(ranked) else ranked
    ords = ranked[begins]
    force = np.add.reduceat(flow[order], begins) if len(begins) else np.zeros(0)
    for index, seed in enumerate(seeds):
        here = names.ords == seed
        which = names.which[here]
        own = np.divide(mass[index], total, out=np.zeros_like(total), where=total > 0)[which]
        force[ords == seed] -= (own * flow[here]).sum()
    reached = force > 1e-12
    return Reach(ords[reached], force[reached])


def flows(names: Names, total: Floats, *, gamma: float, title: float) -> Floats:
    """What flows through each posting: its name's mass, less where many hold it, more in a title."""
    inside = total * np.maximum(names.counts, 1) ** -gamma
    titled = title * total * np.maximum(names.title_counts, 1) ** -gamma
    return np.asarray(
        inside[names.which] * names.inside + titled[names.which] * names.titled, np.float64
    )


def strongest(names: Names, flow: Floats, ords: Ints) -> dict[int, int]:
    """The name (index into keys) through which most reached each of a few chunks."""
    here = np.flatnonzero(within(np.sort(ords), names.ords))
    order = here[np.argsort(flow[here], kind="stable")]
    return dict(zip(names.ords[order].tolist(), names.which[order].tolist(), strict=True))
