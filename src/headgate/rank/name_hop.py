"""Hop: from the best chunks to others that share a rare proper name with them.

The answer to "who founded the club that X plays for" stands in a chunk that the query's words do not
reach, but the chunk about X names the club. Each seed spreads its mass (its score, squared) over its
names by idf; a name gives its mass to the chunks that hold it, fewer chunks getting more:

    m_i(e) = (s_i / s_1)² · idf(e) / Σ idf    x(d) = Σ_i h_i(d) Σ_e m_i(e) ([e in d] / df^γ + τ [e in title] / dft^γ)

h_i(d) = .05 + the share of the query's idf that seed i leaves open and d holds: the second chunk of an answer says
what the first does not. A seed's own mass does not return to it. The cost follows the seeds' names.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.protocols import Postings, Snapshot
from headgate.rank.fields import IN_BODY, IN_TITLE
from headgate.rank.lexical import Floats, Ints, Keys, distinct, firsts, within

# ordinals -> what each giver's mass is worth to each (giver × ordinal)
Receptivity = Callable[[Ints], Floats]
NONE = np.zeros(0, np.uint64)
_POSTING = 31  # bits for the number of a posting below that of its chunk
MOST = 500  # chunks that a hop may lift: several times what a ranking holds
LEADING = 10  # best chunks whose hold on the query counts as told already
MOST_NEW = 0.3  # share of the query from which more that is new counts no more


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
    view: Snapshot,
    seeds: Ints,
    *,
    limit: int,
    share: float,
    extra: Keys = NONE,
    query: Keys = NONE,
) -> Names:
    """The proper names of the seeds that lead on (2 to `limit` chunks) or that the query names; and extra ones."""
    mine = view.names(seeds)
    own = distinct(np.concatenate(mine)) if mine else np.zeros(0, np.uint64)
    keys = distinct(np.concatenate([own, extra])) if len(extra) else own
    held = view.count_names(keys, limit=limit)
    fits = ((held > 1) | ((held > 0) & within(query, keys))) & within(own, keys)
    fits[fits] = view.is_proper(keys[fits], share=share)
    fits |= (held > 0) & within(extra, keys)
    keys = keys[fits]
    hits = view.find_names(keys)
    which = np.repeat(np.arange(len(keys)), hits.counts)
    places = IN_BODY if view.conversational else 0xFFFF
    inside = (hits.values & places) > 0
    titled = (hits.values & IN_TITLE) > 0
    owned = np.zeros((len(mine), len(keys)), bool)
    for row, names in zip(owned, mine, strict=True):
        row[np.searchsorted(keys, names[within(keys, names)])] = True
    counts = [np.bincount(which[found], minlength=len(keys)) for found in (inside, titled)]
    if view.narrowed_to:
        # the candidates hold a part of a name's postings: it is as common as in the whole collection
        growth = np.maximum(view.name_frequencies(keys) / np.maximum(hits.counts, 1), 1.0)
        counts = [np.rint(count * growth).astype(np.int64) for count in counts]
    return Names(keys, owned, hits.ords, which, inside, titled, *counts)


def shares_name(view: Snapshot, seeds: Ints, query: Keys, *, limit: int, share: float) -> bool:
    """Whether the query has a name that `gather` would find, without looking at the other names of the seeds."""
    keys = distinct(np.concatenate([query[:0], *view.names(seeds)]))
    keys = keys[within(query, keys)]
    rare = keys[view.count_names(keys, limit=limit) > 0] if len(keys) else keys
    return bool(len(rare)) and bool(view.is_proper(rare, share=share).any())


def name_masses(view: Snapshot, names: Names, strength: Floats, *, without: Keys) -> Floats:
    """How much of each seed's mass goes to each of its names (seed × name)."""
    useful = (names.counts >= 2) & ~within(without, names.keys)
    share = np.log(view.count / np.maximum(names.counts, 1)) * useful
    spread = names.owned * share
    total = spread.sum(1, keepdims=True)
    spread = np.divide(spread, total, out=np.zeros_like(spread), where=total > 0)
    return np.asarray(spread * ((strength / strength[0]) ** 2)[:, None], np.float64)


def posting_shares(names: Names, *, gamma: float, title: float) -> Floats:
    """What part of its name's mass each posting lets through: less where many hold the name, more in a title."""
    inside = np.maximum(names.counts, 1) ** -gamma
    titled = title * np.maximum(names.title_counts, 1) ** -gamma
    return np.asarray(
        inside[names.which] * names.inside + titled[names.which] * names.titled, np.float64
    )


def spread(names: Names, way: Floats, mass: Floats, seeds: Ints, receive: Receptivity) -> Reach:
    """Send each giver's mass through its names; a seed (the first rows of mass) does not get back what it gave."""
    if not len(names.ords):
        return Reach(names.ords, np.zeros(0))
    order, ords, begins = _top_postings(names, way * mass.sum(0)[names.which])
    sent = np.add.reduceat(mass[:, names.which[order]] * way[order], begins, axis=1)
    sent[: len(seeds)][seeds[:, None] == ords] = 0.0
    force = (sent * receive(ords)).sum(0)
    reached = force > 1e-12
    return Reach(ords[reached], force[reached])


def _top_postings(names: Names, flow: Floats) -> tuple[Ints, Ints, Ints]:
    """The postings of the chunks that most flows to, sorted by chunk; those chunks; where each begins."""
    numbered = np.sort((names.ords << _POSTING) | np.arange(len(names.ords)))
    order = numbered & ((1 << _POSTING) - 1)  # twice as fast as argsort
    begins = np.flatnonzero(firsts(numbered >> _POSTING))
    if len(begins) > MOST:
        force = np.add.reduceat(flow[order], begins)
        stays = force >= np.partition(force, -MOST)[-MOST]
        order = order[np.repeat(stays, np.diff(np.append(begins, len(order))))]
        begins = np.flatnonzero(firsts(names.ords[order]))
    return order, names.ords[order][begins], begins


def open_share(hits: Postings, worth: Floats, chunk: int) -> float:
    """The share of the query's worth that one chunk does not hold."""
    total = float(worth.sum())
    held = _term_matrix(hits, np.arange(len(hits.counts)), np.array([chunk]))[:, 0]
    return 1.0 - float(worth[held].sum()) / total if total else 1.0


def new_shares(hits: Postings, worth: Floats, ranked: Ints, *, weight: float = 1.0) -> Floats:
    """For each of some ranked chunks, the share of the query's worth that the leading ones above it do not hold,
    weighted.
    """
    known = np.flatnonzero(hits.counts)
    held = _term_matrix(hits, known, ranked)
    above = np.logical_or.accumulate(held, axis=1)
    told = np.zeros_like(held)
    told[:, 1:] = above[:, np.minimum(np.arange(len(ranked) - 1), LEADING - 1)]
    share = worth[known] @ (held & ~told) / (float(worth.sum()) or 1.0)
    return np.asarray(weight * np.minimum(share, MOST_NEW), np.float64)


def receptivity(hits: Postings, worth: Floats, seeds: Ints, *, least: float) -> Receptivity:
    """Least + the share of the query's worth that a seed leaves open and a chunk holds, for every seed and chunk.

    The last row is for mass that no seed gave, for which the whole query is open.
    """
    known = np.flatnonzero(hits.counts)
    worth = worth[known]
    total, first = float(worth.sum()) or 1.0, len(seeds)

    def receive(ords: Ints) -> Floats:
        held = _term_matrix(hits, known, np.concatenate([seeds, ords]))
        lacks = worth * np.vstack([~held[:, :first].T, np.ones((1, len(known)), bool)])
        return np.asarray(least + lacks @ held[:, first:] / total, np.float64)

    return receive


def _term_matrix(hits: Postings, known: Ints, asked: Ints) -> npt.NDArray[np.bool_]:
    """Which of some chunks hold which of some terms (term × chunk)."""
    ends = np.cumsum(hits.counts)
    held = np.zeros((len(known), len(asked)), bool)
    for row, term in zip(held, known.tolist(), strict=True):
        row[:] = within(hits.ords[ends[term] - hits.counts[term] : ends[term]], asked)
    return held


def strongest(names: Names, flow: Floats, ords: Ints) -> dict[int, int]:
    """The name (index into keys) through which most reached each of a few chunks."""
    here = np.flatnonzero(within(np.sort(ords), names.ords))
    order = here[np.argsort(flow[here], kind="stable")]
    return dict(zip(names.ords[order].tolist(), names.which[order].tolist(), strict=True))
