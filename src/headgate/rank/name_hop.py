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
import numpy.typing as npt

from headgate.protocols import Postings, Snapshot
from headgate.rank.fields import IN_BODY, IN_TITLE, field_flags
from headgate.rank.lexical import Floats, Ints, Keys, distinct, firsts, within
from headgate.text.terms import numbers, terms

NONE = np.zeros(0, np.uint64)
NO_ORDS, NO_VALUES = np.zeros(0, np.int64), np.zeros(0, np.uint16)
MOST = 500  # chunks that a hop may reach: five times the 100 that a ranking holds
# Best chunks whose terms count as covered, and the share of the query's weight from which more that is new counts no
# more. No figure was kept for either; the golden traces and the retrieval figures were made with them.
COVERING = 10
MOST_NOVEL = 0.3
_LEAST_BOOST = 1e-12  # less than this is rounding


@dataclass(frozen=True, slots=True)
class NamePostings:
    """The rare proper names of some seeds: which chunks hold each, and how many do."""

    keys: Keys
    owned: npt.NDArray[np.bool_]  # seed × name
    ords: Ints
    which: Ints  # index into keys, per posting
    inside: npt.NDArray[np.bool_]
    titled: npt.NDArray[np.bool_]
    counts: Ints
    title_counts: Ints


@dataclass(frozen=True, slots=True)
class ReachedChunks:
    """The chunks that were reached, ascending, and what each gains."""

    ords: Ints
    boost: Floats


def find_name_postings(
    view: Snapshot,
    seeds: Ints,
    *,
    limit: int,
    share: float,
    query: Keys = NONE,
) -> NamePostings:
    """The proper names of the seeds that lead on (2 to `limit` chunks) or that the query names."""
    mine = view.names(seeds)
    keys = distinct(np.concatenate(mine)) if mine else np.zeros(0, np.uint64)
    held = view.count_names(keys, limit=limit)
    fits = (held > 1) | ((held > 0) & within(query, keys))
    fits[fits] = view.is_proper(keys[fits], share=share)
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
    return NamePostings(keys, owned, hits.ords, which, inside, titled, *counts)


def find_written_names(
    view: Snapshot, names: Sequence[str], *, limit: int
) -> tuple[list[str], NamePostings]:
    """Those of some names that chunks write, in whichever case, and where: a chunk holds every word of the name.

    A name in more than `limit` chunks leads nowhere, as among names with capitals. No seed owns one.
    """
    words = [sorted(set(terms(name, view.language))) for name in names]
    rare = [0 < count <= limit for count in _rarest(view, words)]
    asked = np.array(sorted({key for own, fits in zip(words, rare, strict=True) if fits for key in own}), np.uint64)  # fmt: skip
    hits = view.postings(asked)
    ends = np.cumsum(hits.counts)
    spans = {
        key: slice(end - count, end)
        for key, end, count in zip(asked.tolist(), ends.tolist(), hits.counts.tolist(), strict=True)
    }
    found: list[str] = []
    parts: list[tuple[Ints, npt.NDArray[np.uint16]]] = []
    for name, own, fits in zip(names, words, rare, strict=True):
        ords, values = (
            _holding_all(hits, [spans[key] for key in own]) if fits else (NO_ORDS, NO_VALUES)
        )
        if len(ords):
            found.append(name)
            parts.append((ords, values))
    which = np.repeat(np.arange(len(parts)), [len(ords) for ords, _ in parts])
    inside, titled = field_flags(np.concatenate([NO_VALUES, *(values for _, values in parts)]))
    return found, NamePostings(
        keys=np.array(numbers(found), np.uint64),
        owned=np.zeros((0, len(found)), bool),
        ords=np.concatenate([NO_ORDS, *(ords for ords, _ in parts)]),
        which=which,
        inside=inside,
        titled=titled,
        counts=np.bincount(which[inside], minlength=len(found)),
        title_counts=np.bincount(which[titled], minlength=len(found)),
    )


def select_rare(view: Snapshot, names: Sequence[str], *, limit: int) -> list[str]:
    """Those of some names of which one word stands in at most `limit` chunks."""
    counts = _rarest(view, [sorted(set(terms(name, view.language))) for name in names])
    return [name for name, count in zip(names, counts, strict=True) if count <= limit]


def _rarest(view: Snapshot, words: Sequence[Sequence[int]]) -> list[int]:
    """In how many chunks the rarest word of each name stands; 0 for a name without words."""
    keys = np.array(sorted({key for own in words for key in own}), np.uint64)
    known = dict(zip(keys.tolist(), view.frequencies(keys).tolist(), strict=True))
    return [min((known[key] for key in own), default=0) for own in words]


def _holding_all(hits: Postings, spans: Sequence[slice]) -> tuple[Ints, npt.NDArray[np.uint16]]:
    """The chunks that all of some terms stand in, and where the last of these terms stands there."""
    ords, values = hits.ords[spans[0]], hits.values[spans[0]]
    for span in spans[1:]:
        here = within(ords, hits.ords[span])
        ords, values = hits.ords[span][here], hits.values[span][here]
    return ords, values


def shares_name(view: Snapshot, seeds: Ints, query: Keys, *, limit: int, share: float) -> bool:
    """Whether the query has a name that `find_name_postings` would find, without a look at the seeds' other names."""
    keys = distinct(np.concatenate([query[:0], *view.names(seeds)]))
    keys = keys[within(query, keys)]
    rare = keys[view.count_names(keys, limit=limit) > 0] if len(keys) else keys
    return bool(len(rare)) and bool(view.is_proper(rare, share=share).any())


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


def receive_by_name(
    names: NamePostings, posting_flow: Floats, hits: Postings, term_weight: Floats, *, least: float
) -> ReachedChunks:
    """The chunks that mass flows to which no seed gave. Of those that hold a name, the one that holds most of the query
    takes all that flows to it, the others less.
    """
    ords, slots = np.unique(names.ords, return_inverse=True)
    (open_to,) = receptivity(hits, term_weight, ords[:0], ords, least=least)
    taken = open_to[slots]
    most = np.zeros(len(names.keys))
    np.maximum.at(most, names.which, taken)
    share = np.divide(taken, most[names.which], out=np.ones_like(taken), where=taken > 0)
    boost = np.zeros(len(ords))
    np.add.at(boost, slots, posting_flow * share)
    return ReachedChunks(ords, boost)


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


def open_share(hits: Postings, term_weight: Floats, chunk: int) -> float:
    """The share of the query's weight that one chunk does not hold."""
    total = float(term_weight.sum())
    held = _term_matrix(hits, np.arange(len(hits.counts)), np.array([chunk]))[:, 0]
    return 1.0 - float(term_weight[held].sum()) / total if total else 1.0


def novelty_shares(
    hits: Postings, term_weight: Floats, ranked: Ints, *, weight: float = 1.0
) -> Floats:
    """For each of some ranked chunks, the share of the query's weight that it holds and the best above it do not,
    weighted.
    """
    known = np.flatnonzero(hits.counts)
    held = _term_matrix(hits, known, ranked)
    above = np.logical_or.accumulate(held, axis=1)
    covered = np.zeros_like(held)
    covered[:, 1:] = above[:, np.minimum(np.arange(len(ranked) - 1), COVERING - 1)]
    share = term_weight[known] @ (held & ~covered) / (float(term_weight.sum()) or 1.0)
    return np.asarray(weight * np.minimum(share, MOST_NOVEL), np.float64)


def receptivity(
    hits: Postings, term_weight: Floats, seeds: Ints, ords: Ints, *, least: float
) -> Floats:
    """Least + the share of the query's weight that a seed leaves open and a chunk holds, for every seed and chunk.

    The last row is for mass that no seed gave, for which the whole query is open.
    """
    known = np.flatnonzero(hits.counts)
    weights = term_weight[known]
    total, first = float(weights.sum()) or 1.0, len(seeds)
    held = _term_matrix(hits, known, np.concatenate([seeds, ords]))
    lacks = weights * np.vstack([~held[:, :first].T, np.ones((1, len(known)), bool)])
    return np.asarray(least + lacks @ held[:, first:] / total, np.float64)


def _term_matrix(hits: Postings, known: Ints, asked: Ints) -> npt.NDArray[np.bool_]:
    """Which of some chunks hold which of some terms (term × chunk)."""
    ends = np.cumsum(hits.counts)
    held = np.zeros((len(known), len(asked)), bool)
    for row, term in zip(held, known.tolist(), strict=True):
        row[:] = within(hits.ords[ends[term] - hits.counts[term] : ends[term]], asked)
    return held


def strongest_names(names: NamePostings, posting_flow: Floats, ords: Ints) -> dict[int, int]:
    """The name (index into keys) through which most reached each of a few chunks."""
    here = np.flatnonzero(within(np.sort(ords), names.ords))
    order = here[np.argsort(posting_flow[here], kind="stable")]
    return dict(zip(names.ords[order].tolist(), names.which[order].tolist(), strict=True))
