"""Hop: from the best chunks to others that share a rare proper name with them.

The answer to "who founded the club that X plays for" stands in a chunk that the query's words do not reach, but the
chunk about X names the club. Each seed spreads its mass (its score, squared) over its names by idf. A name gives its
mass to the chunks that hold it; the fewer they are, the more each gets:

    m_i(e) = (s_i / s_1)² · idf(e) / Σ idf    x(d) = Σ_i h_i(d) Σ_e m_i(e) ([e in d] / df^γ + τ [e in title] / dft^γ)

h_i(d) = .05 + the share of the query's idf that seed i leaves open and d holds: the second chunk of an answer says
what the first does not. A seed's own mass does not return to it. The cost follows the seeds' names.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millgate.protocols import Snapshot
from millgate.rank.lexical import Floats, Ints, Keys, distinct, firsts, within
from millgate.rank.name_postings import NamePostings, find_name_postings
from millgate.rank.query_share import receptivity
from millgate.rank.seeds import PropagationSeeds

MOST = 500  # chunks that a hop may reach: five times the 100 that a ranking holds
_LEAST_BOOST = 1e-12  # less than this is rounding


@dataclass(frozen=True, slots=True)
class ReachedChunks:
    """The chunks that were reached, ascending, and what each gains."""

    ords: Ints
    boost: Floats


@dataclass(frozen=True, slots=True)
class NameRules:
    """Which names lead on, and how much they let through."""

    limit: int  # most chunks that may hold a name which leads on
    proper: float  # share of a word's uses inside sentences that must be capitalized
    spread: float  # γ: a name in df chunks gives each of them 1 / df^γ
    title: float  # τ: what a name in a title adds
    least: float  # the share of a seed's mass that a chunk takes which holds nothing that is open


@dataclass(frozen=True, slots=True)
class NameFlow:
    """What flowed through the postings of which names; `labels` is how they read, if the index does not know it."""

    names: NamePostings
    posting_flow: Floats
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ScoreBoost:
    """What was reached, and what flowed through which names to get there."""

    reached: ReachedChunks
    flows: tuple[NameFlow, ...] = ()


def follow_names(view: Snapshot, seeds: PropagationSeeds, by: NameRules, gain: float) -> ScoreBoost:
    """What the seeds' names lead to; the most strongly reached chunk gains `gain`."""
    if gain <= 0:
        return ScoreBoost(ReachedChunks(seeds.ords[:0], np.zeros(0)))
    held = find_name_postings(
        view, seeds.ords, limit=by.limit, share=by.proper, query=seeds.query_keys
    )
    score_mass = name_masses(view, held, seeds.strength, without=seeds.query_keys)
    posting_share = posting_shares(held, gamma=by.spread, title=by.title)
    ords, sent = spread(held, posting_share, score_mass, seeds.ords)
    receptivities = receptivity(seeds.hits, seeds.term_weight, seeds.ords, ords, least=by.least)
    reached = receive(ords, sent, receptivities[:-1])
    flow = NameFlow(held, score_mass.sum(0)[held.which] * posting_share)
    peak = reached.boost.max() if len(reached.boost) else 1.0
    return ScoreBoost(ReachedChunks(reached.ords, gain * reached.boost / peak), (flow,))


def join(one: ScoreBoost, other: ScoreBoost) -> ScoreBoost:
    """What was reached in two ways: a chunk gains by both."""
    return ScoreBoost(join_reached(one.reached, other.reached), (*one.flows, *other.flows))


def join_reached(one: ReachedChunks, other: ReachedChunks) -> ReachedChunks:
    """What was reached in two ways: a chunk gains by both."""
    ords = distinct(np.concatenate([one.ords, other.ords]))
    total = np.zeros(len(ords))
    for part in (one, other):
        total[np.searchsorted(ords, part.ords)] += part.boost
    return ReachedChunks(ords, total)


def name_masses(view: Snapshot, names: NamePostings, strength: Floats, *, without: Keys) -> Floats:
    """How much of each seed's mass goes to each of its names (seed × name)."""
    useful = (names.counts >= 2) & ~within(without, names.keys)
    # the plain ln(N / df) and not the smoothed idf of terms: a name in every chunk leads nowhere and gets no mass
    share = np.log(view.count / np.maximum(names.counts, 1)) * useful
    spread = names.owned * share
    total = spread.sum(1, keepdims=True)
    spread = np.divide(spread, total, out=np.zeros_like(spread), where=total > 0)
    return np.asarray(spread * ((strength / strength[0]) ** 2)[:, None], np.float64)


def posting_shares(names: NamePostings, *, gamma: float, title: float) -> Floats:
    """What part of its name's mass each posting lets through: less if many hold the name, more in a title."""
    inside = np.maximum(names.counts, 1) ** -gamma
    titled = title * np.maximum(names.title_counts, 1) ** -gamma
    return np.asarray(
        inside[names.which] * names.inside + titled[names.which] * names.titled, np.float64
    )


def spread(
    names: NamePostings, posting_share: Floats, score_mass: Floats, seeds: Ints
) -> tuple[Ints, Floats]:
    """The chunks that mass flows to through names, ascending, and what each giver sends to each (giver × chunk).

    The seeds are the first givers. A seed does not get back what it gave.
    """
    if not len(names.ords):
        return names.ords, np.zeros((len(score_mass), 0))
    posting_flow = posting_share * score_mass.sum(0)[names.which]
    order, ords, begins = _top_postings(names, posting_flow)
    flow = score_mass[:, names.which[order]] * posting_share[order]
    sent = np.add.reduceat(flow, begins, axis=1)
    sent[: len(seeds)][seeds[:, None] == ords] = 0.0
    return ords, sent


def receive(ords: Ints, sent: Floats, receptivities: Floats) -> ReachedChunks:
    """The chunks that something of what was sent reaches; each takes what it is receptive to."""
    boost = (sent * receptivities).sum(0)
    reached = boost > _LEAST_BOOST
    return ReachedChunks(ords[reached], boost[reached])


def _top_postings(names: NamePostings, posting_flow: Floats) -> tuple[Ints, Ints, Ints]:
    """The postings of the chunks that most flows to, sorted by chunk; those chunks; where each begins."""
    order = np.argsort(names.ords, kind="stable")
    begins = np.flatnonzero(firsts(names.ords[order]))
    if len(begins) > MOST:
        boost = np.add.reduceat(posting_flow[order], begins)
        stays = boost >= np.partition(boost, -MOST)[-MOST]
        order = order[np.repeat(stays, np.diff(np.append(begins, len(order))))]
        begins = np.flatnonzero(firsts(names.ords[order]))
    return order, names.ords[order][begins], begins
