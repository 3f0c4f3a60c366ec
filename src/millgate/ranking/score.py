"""Score: all that makes the score of a chunk, from top to bottom.

    s1 = norm(words + phrases + heads + .5 feedback / max + .5 open max(0, D - .75 D(best)))    stages/retrieve.py
    s  = (s1 + names + edges + novelty) * cue                                                  stages/propagate.py

**words** is BM25F over fields, with neighbors' counts in conversations:

    lex(d) = Σ_t w_t · idf_t · (k1 + 1)·F / (F + k1)        F = f = count(d, t) / (1 − b + b·len/mean)

A title's counts weigh more. In a conversation a line is understood through the lines around it, so
their counts are added *before* saturation: F = f + .5 f(d±1) + .3 f(d±2) + 3 [in speaker] + 1 [in date];
adding neighbors' finished scores instead costs .02 of evidence. idf comes from the chunks' own terms.
**phrases** and **heads** are counted beside it, since a title's counts drown in the saturation of the body's.

**feedback** asks for the terms of the best chunks once more: they use the collection's words, even if the query does
not. Each chunk's weighted terms count by the square of its score; the strongest new terms are asked for, without very
common ones. If these terms fit another chunk better than the best one, they lead away from the question. **D** is the
similarity of vectors.

**names**: the answer to "who founded the club that X plays for" stands in a chunk that the query's words do not reach,
but the chunk about X names the club. Each seed (one of the best chunks) spreads its mass, its score squared, over its
names by idf. A name gives its mass to the chunks that hold it; the fewer they are, the more each gets:

    m_i(e) = (s_i / s_1)² · idf(e) / Σ idf    x(d) = Σ_i h_i(d) Σ_e m_i(e) ([e in d] / df^γ + τ [e in title] / dft^γ)

h_i(d) = .05 + the share of the query's idf that seed i leaves open and d holds: the second chunk of an answer says
what the first does not. A seed's own mass does not return to it. The cost follows the seeds' names.

**edges** are given knowledge. A signal is charge × weight × leak, and weak ones are discarded. Edges work both ways,
and a node keeps the strongest signal that reaches it. A node is a chunk or a document of several, by its id as it is
spelled, or a name, however its letters are cased: "README" and "readme" are one name, and two chunks.

**novelty** is the share of the query that a chunk holds and better ones do not. **cue**: in a conversation a line that
ends with a question asks and seldom tells; where sessions are stored, the question itself is such a line, and the best
match of its own words. What Ann did is mostly told by Ann: on three conversations and 414 labeled questions the speaker
brings .012 of the evidence in 1,000 tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import chain, islice, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from millgate.protocols import Postings, Snapshot, TermPositions
from millgate.ranking.arrays import (
    Floats,
    Ints,
    Keys,
    distinct,
    firsts,
    locate,
    number_keys,
    sum_at,
    top,
)
from millgate.ranking.fields import DATE, SPEAKER, TITLE, presence_weights, table
from millgate.ranking.name_postings import (
    NamePostings,
    find_name_postings,
    find_written_names,
    select_rare,
)
from millgate.text.hashes import within
from millgate.text.names import names as names_in
from millgate.text.names import spelled_words
from millgate.text.terms import number
from millgate.text.terms import terms as terms_in
from millgate.text.terms import words as words_in
from millgate.text.turns import part
from millgate.types import Chunk, Edge, Sifted, node_key

Counts = TypeVar("Counts", float, Floats)

# The usual constants of BM25, and the defaults of Lucene: Robertson and Zaragoza, "The Probabilistic Relevance
# Framework", 2009, name 1.2 to 2 and .5 to .8 as ranges that work.
K1, B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Weighing:
    """The constants of the lexical score. Without any, plain BM25 over titles and texts."""

    k1: float = K1
    b: float = B
    title: float = 1.0
    speaker: float = 0.0
    date: float = 0.0
    near: tuple[float, ...] = ()


def idf(count: int, frequencies: npt.ArrayLike) -> Floats:
    """The idf of some terms, ln(1 + (N − df + ½) / (df + ½)): never negative.

    A term that more chunks hold than were counted is as common as can be.
    """
    df = np.asarray(frequencies)
    return np.asarray(np.log1p((np.maximum(count - df, 0) + 0.5) / (df + 0.5)), np.float64)


def saturate(counts: Counts, damping: Counts | float, weight: Counts | float) -> Counts:
    """What a term adds that stands `counts` times: weight · n / (n + damping), where damping is k1 · length norm.

    For BM25 the weight is w_t · idf_t · (k1 + 1).
    """
    added: Counts = counts * weight / (counts + damping)
    return added


def lexical(
    view: Snapshot, terms: Keys, hits: Postings, term_weight: Floats, by: Weighing
) -> Floats:
    """The lexical score of every chunk, 0 for those without any of the terms; a term's weight is w_t · idf_t."""
    scale = term_weight * (by.k1 + 1)
    if view.conversational and by.near:
        return _talk(view, terms, hits, scale, by)
    values = _weigh(view, hits.ords, hits.values, by)
    ends = np.cumsum(hits.counts).tolist()
    for weight, begin, end in zip(scale.astype(np.float32), [0, *ends], ends, strict=False):
        values[begin:end] *= weight
    return sum_at(hits.ords, values, view.size)


def _weigh(
    view: Snapshot, ords: Ints, packed: npt.NDArray[np.uint16], by: Weighing
) -> npt.NDArray[np.float32]:
    """What each posting adds to its chunk's score."""
    n = packed.astype(np.float32)  # the count itself, in the body alone
    if len(rest := np.flatnonzero(packed > 255)):
        n[rest] = table(title=by.title, speaker=1.0, date=1.0).take(packed[rest])
    damp = view.norms(b=by.b, title=by.title, head=True).take(ords)
    damp *= by.k1
    damp += n  # `saturate` in place and in 32 bits, since the postings of a common term are many
    n /= damp
    return n


def _talk(view: Snapshot, terms: Keys, hits: Postings, scale: Floats, by: Weighing) -> Floats:
    """The same in a conversation. Works in reading order, where neighbors are next to each other."""
    rank, standing = view.reading_order()
    spoken = within(view.speakers(), terms)
    f = table(title=by.title).take(hits.values).astype(np.float64)
    f /= view.norms(b=by.b, title=by.title, head=False)[hits.ords]
    heads = presence_weights(speaker=by.speaker, date=by.date).take(hits.values)
    reach = len(by.near)
    total = np.zeros(len(standing) + 2 * reach)
    sums = np.zeros_like(total)
    begin = 0
    for index, count in enumerate(hits.counts):
        end = begin + count
        at = rank[hits.ords[begin:end]] + reach
        touched = [at]
        # every index list holds each rank once, so that plain assignment adds correctly
        sums[at] += heads[begin:end] if spoken[index] else f[begin:end] + heads[begin:end]
        if not spoken[index]:
            for step, weight in enumerate(by.near, 1):
                for shift in (step, -step):
                    sums[at + shift] += weight * f[begin:end]
                    touched.append(at + shift)
        where = np.concatenate(touched)
        # a rank met twice gets the same value
        total[where] += saturate(sums[where], by.k1, scale[index])
        sums[where] = 0.0
        begin = end
    scores = np.zeros(view.size)
    scores[standing] = total[reach : reach + len(standing)]
    return scores


def phrases(
    view: Snapshot,
    ords: Ints,
    found: TermPositions,
    query: Sequence[tuple[int, ...]],
    term_idf: dict[int, float],
    *,
    by: Weighing,
) -> Floats:
    """A bonus for each of some chunks that holds two neighboring words of the query side by side, given where they
    stand.

    A pair counts less, the more of the chunks that hold its rarer word hold the pair: of a fixed expression, one word
    tells the other. The terms of one word (parts of an identifier, pairs of signs in a script without spaces) are not
    a phrase: they would count the word twice.
    """
    bonus = np.zeros(len(ords))
    seams = [(before[-1], after[0]) for before, after in pairwise(query)]
    pairs = {(a, b): term_idf[a] + term_idf[b] for a, b in seams if a in term_idf and b in term_idf}
    if not pairs:
        return bonus
    talk = view.conversational and bool(by.near)
    # runs of text within which two terms can be neighbors: the title, and the rest (without a chat head)
    block = np.array([0, -1, -1, 1] if talk else [0, 1, 1, 1])[found.field]
    keys = np.array(sorted({*chain(*query)}), np.uint64)
    term, owner = keys.searchsorted(found.terms), found.owner
    beside = (owner[1:] == owner[:-1]) & (found.position[1:] - found.position[:-1] == 1)
    beside &= (block[1:] == block[:-1]) & (block[:-1] >= 0)
    at = np.flatnonzero(beside)  # a query term, followed by another
    first, second = keys.searchsorted(np.array([*pairs], np.uint64).T)
    which, hit = locate(first * len(keys) + second, term[at] * len(keys) + term[at + 1])
    n = np.bincount(which[hit] * len(ords) + owner[at[hit]], minlength=len(pairs) * len(ords))
    n = n.reshape(len(pairs), -1)
    held = np.zeros((len(keys), len(ords)), bool)
    held[term, owner] = True
    fixed = (n > 0).sum(1) / (np.minimum(*held.sum(1)[[first, second]]) + 1)
    weight = (1 - fixed) * np.array([*pairs.values()])
    damp = by.k1 * view.norms(b=by.b, title=by.title, head=not talk)[ords].astype(np.float64)
    # `saturate` written out: with its order of factors, scores of repeated phrases differ in the last bit
    for row in weight[:, None] * n * (by.k1 + 1) / (n + damp):
        bonus += row  # one after the other, so that sums round the same way on every machine
    return bonus


def heads(spots: TermPositions, term_idf: dict[int, float], count: int, *, lead: int) -> Floats:
    """For each of `count` chunks, the idf of the query terms in its head: its title, else its first `lead` terms."""
    inside = np.where(spots.titled, spots.field == TITLE, spots.position < lead)
    held = {*zip(spots.owner[inside].tolist(), spots.terms[inside].tolist(), strict=True)}
    whose = np.array([owner for owner, _ in sorted(held)], np.int64)
    return sum_at(whose, np.array([term_idf[key] for _, key in sorted(held)], float), count)


def feedback(
    view: Snapshot,
    seeds: Ints,
    strength: Floats,
    by: Weighing,
    *,
    known: Keys,
    terms: int,
    common: int,
    agreement: float,
    height: float,
) -> Floats | None:
    """The lexical score of every chunk for the seeds' best terms, of which the highest becomes `height`.

    None when they have no new one, or when the first seed has less than `agreement` of the highest score.
    """
    vocabulary, slots, who, value = contents(view, seeds, by)
    share = strength**2 / (strength**2).sum()
    counts = view.frequencies(vocabulary)
    term_idf = idf(view.count, counts)
    weight = sum_at(slots, share[who] * value, len(vocabulary)) * term_idf
    weight[(counts > common) | (counts == 0) | within(known, vocabulary)] = 0.0
    best = np.lexsort((vocabulary, -weight))[:terms]
    best = best[weight[best] > 0]
    if not len(best):
        return None
    chosen, term_weight = vocabulary[best], weight[best] * term_idf[best]
    feedback_scores = lexical(view, chosen, view.postings(chosen), term_weight, by)
    peak = float(feedback_scores.max())
    if not peak or feedback_scores[seeds[0]] < agreement * peak:
        return None
    feedback_scores *= height / peak
    return feedback_scores


def contents(view: Snapshot, ords: Ints, by: Weighing) -> tuple[Keys, Ints, Ints, Floats]:
    """The terms of some chunks; then which term, owner (index into ords) and saturated count, idf left out."""
    talk = view.conversational and bool(by.near)
    asked, owner, share = _around(view, ords, by) if talk else (ords, np.arange(len(ords)), None)
    found = view.token_streams(asked)
    norms = view.norms(b=by.b, title=by.title, head=not talk)
    count = np.where(found.field == TITLE, by.title, 1.0)
    if talk:
        count[(found.field == SPEAKER) | (found.field == DATE)] = 0.0
        count[within(view.speakers(), found.terms)] = 0.0
    count /= norms[asked][found.owner]
    if share is not None:
        count *= share[found.owner]
    keys, slots = number_keys(found.terms)
    pairs = slots * len(ords) + owner[found.owner]
    sums = sum_at(pairs, count, len(keys) * len(ords)).reshape(-1, len(ords))
    if talk:
        own = asked[found.owner] == ords[owner[found.owner]]
        for field, bonus in ((SPEAKER, by.speaker), (DATE, by.date)):
            here = distinct(pairs[own & (found.field == field)])
            sums.reshape(-1)[here] += bonus
        held = sums.any(1)
        keys, sums = keys[held], sums[held]
    slot, who = sums.nonzero()
    return keys, slot, who, saturate(sums[slot, who], by.k1, by.k1 + 1)


def _around(view: Snapshot, ords: Ints, by: Weighing) -> tuple[Ints, Ints, Floats]:
    """Some chunks with their neighbors in the conversation: who, whose neighbor, and with what weight."""
    rank, standing = view.reading_order()
    shifts = [0, *(s for step in range(1, len(by.near) + 1) for s in (step, -step))]
    weights = [1.0, *(w for w in by.near for _ in range(2))]
    at = (rank[ords][:, None] + np.array(shifts)[None, :]).ravel()
    there = (at >= 0) & (at < len(standing))
    owner = np.repeat(np.arange(len(ords)), len(shifts))[there]
    return standing[at[there]], owner, np.tile(weights, len(ords))[there]


SEEDS = 64  # more than any propagation starts from
# Bounds on the words that are looked up in the graph, so that a request over a large one stays within milliseconds.
WORD_SEEDS = 3  # best seeds whose words are looked up ...
SEED_WORDS = 100  # ... and how many words of each


@dataclass(frozen=True, slots=True)
class RankingScores:
    """What retrieval found, as arrays: every chunk's score, the seeds of propagation, and the query's postings."""

    every: Floats
    seeds: Ints
    strength: Floats
    kept: Ints  # the candidates' ordinals, in their order; below 0 if unknown
    ranked: int = 0  # how many of `kept` are the best of all, best first
    hits: Postings | None = None


@dataclass(frozen=True, slots=True)
class Found(Sifted):
    """What retrieval found, with its scores."""

    scores: RankingScores | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PropagationSeeds:
    """Where signals start: the best chunks, and the query's names, words and terms."""

    ords: Ints
    strength: Floats
    scores: RankingScores
    query_names: tuple[str, ...]  # the names and words of the query
    query_keys: Keys  # the same as keys
    hits: Postings  # of the query's terms
    term_weight: Floats  # the idf of each, 0 for a term that no chunk holds
    chunks: tuple[Chunk | None, ...] = ()  # the seeds' own, None for one that was not handed on
    written_names: tuple[tuple[str, ...], ...] = ()
    """For each seed, the names of the graph that its text writes without capitals."""


def find_seeds(found: Sifted, query: str, view: Snapshot, most: int) -> PropagationSeeds | None:
    """Where signals start for what was found, from `most` of the best chunks at most; None if none do."""
    if not found.kept:
        return None
    scores = scores_of(found, view)
    handed = dict(zip(scores.kept.tolist(), found.kept, strict=True))
    first = scores.seeds[:most]
    came = [handed.get(ord) for ord in first.tolist()]
    hits = scores.hits
    if hits is None:
        hits = view.postings(distinct(np.array(terms_in(query, view.language), np.uint64)))
    query_names = tuple(dict.fromkeys((*sorted(names_in(query)), *words_in(query))))
    return PropagationSeeds(
        ords=first,
        strength=scores.strength[:most],
        scores=scores,
        query_names=query_names,
        query_keys=distinct(np.array([number(name) for name in query_names], np.uint64)),
        hits=hits,
        term_weight=idf(view.count, hits.counts) * (hits.counts > 0),
        chunks=tuple(candidate.chunk if candidate else None for candidate in came),
    )


def seed_words(seeds: PropagationSeeds) -> list[list[str]]:
    """For each seed, the words of its text, and pairs of them: a text may write a name of the graph in any case.

    Only the best seeds have any: a name leads on from those most strongly.
    """
    return [
        _words_and_pairs(chunk.text) if chunk and place < WORD_SEEDS else []
        for place, chunk in enumerate(seeds.chunks)
    ]


def with_written_names(
    seeds: PropagationSeeds,
    words: Sequence[Sequence[str]],
    nodes: Sequence[str],
    view: Snapshot,
    *,
    limit: int,
) -> PropagationSeeds:
    """The seeds with those nodes of the graph that are among their words; a word in more than `limit` chunks is no
    name.
    """
    rare = set(select_rare(view, nodes, limit=limit))
    written = tuple(tuple(dict.fromkeys(w for w in own if w in rare)) for own in words)
    return replace(seeds, written_names=written)


def _words_and_pairs(text: str) -> list[str]:
    """The words of a text, and each with the one after it, up to a bound, as names are compared."""
    found = list(islice(spelled_words(text), SEED_WORDS))
    return [*found, *map(" ".join, pairwise(found))]


def read_chunks(view: Snapshot, ords: Ints) -> dict[int, Chunk]:
    """The chunks behind some ordinals; one may be gone by now."""
    if not len(ords):
        return {}
    ids = view.ids(ords)
    chunks = {chunk.id: chunk for chunk in view.read(ids)}
    return {o: chunks[id] for o, id in zip(ords.tolist(), ids, strict=True) if id in chunks}


def scores_of(found: Sifted, view: Snapshot) -> RankingScores:
    """The scores behind what was found, made from the candidates if retrieval did not hand them on."""
    if isinstance(found, Found) and found.scores is not None:
        return found.scores
    ords = view.find([c.chunk.id for c in found.kept])
    there = ords >= 0
    every = np.zeros(view.size)
    every[ords[there]] = np.array([c.score for c in found.kept], float)[there]
    seeds = top(every, SEEDS, view)
    return RankingScores(
        every, seeds, every[seeds], np.where(there, ords, -1 - np.arange(len(ords)))
    )


# The share of the query's weight from which more that is new counts no more. Without this bound multi-hop questions
# lose .010 of their evidence; without the whole rule, .007.
MOST_NOVEL = 0.3


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
    covered[:, 1:] = above[:, :-1]
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


MOST = 500  # chunks that a hop may reach: five times the 100 that a ranking holds
_LEAST_BOOST = 1e-12  # less than this is rounding


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
    """The chunks that were reached, ascending, what each gains, and what flowed through which names to get there."""

    ords: Ints
    boost: Floats
    flows: tuple[NameFlow, ...] = ()


def follow_names(view: Snapshot, seeds: PropagationSeeds, by: NameRules, gain: float) -> ScoreBoost:
    """What the seeds' names lead to; the most strongly reached chunk gains `gain`. Nothing if no seed holds a rare name
    of the query.
    """
    nothing = ScoreBoost(seeds.ords[:0], np.zeros(0))
    if gain <= 0:
        return nothing
    query = seeds.query_keys
    held = find_name_postings(view, seeds.ords, limit=by.limit, share=by.proper, query=query)
    if not within(query, held.keys).any():
        return nothing
    score_mass = name_masses(view, held, seeds.strength, without=query)
    posting_share = posting_shares(held, gamma=by.spread, title=by.title)
    ords, sent = spread(held, posting_share, score_mass, seeds.ords)
    receptivities = receptivity(seeds.hits, seeds.term_weight, seeds.ords, ords, least=by.least)
    reached = receive(ords, sent, receptivities[:-1])
    flow = NameFlow(held, score_mass.sum(0)[held.which] * posting_share)
    peak = reached.boost.max() if len(reached.boost) else 1.0
    return ScoreBoost(reached.ords, gain * reached.boost / peak, (flow,))


def join(one: ScoreBoost, other: ScoreBoost) -> ScoreBoost:
    """What was reached in two ways: a chunk gains by both."""
    ords = distinct(np.concatenate([one.ords, other.ords]))
    total = np.zeros(len(ords))
    for way in (one, other):
        total[np.searchsorted(ords, way.ords)] += way.boost
    return ScoreBoost(ords, total, (*one.flows, *other.flows))


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


def receive(ords: Ints, sent: Floats, receptivities: Floats) -> ScoreBoost:
    """The chunks that something of what was sent reaches; each takes what it is receptive to."""
    boost = (sent * receptivities).sum(0)
    reached = boost > _LEAST_BOOST
    return ScoreBoost(ords[reached], boost[reached])


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


# Bounds on what edges lead to, chosen so that a request over a large graph stays within some milliseconds.
MAX_NAMES = 32  # names that edges lead to, whose chunks are found
MAX_PARTS = 64  # chunks of a document among which the best is chosen


@dataclass(frozen=True, slots=True)
class EdgeRules:
    """How far signals travel along edges, and what is left of them."""

    charge: float  # of a name of the query, or of the best seed
    leak: float  # what is left of a signal after one edge
    floor: float  # weaker signals are discarded
    hops: int


class Node(NamedTuple):
    """Where an edge begins or ends: the id of a chunk or of a document, or a name in lower case."""

    text: str
    is_chunk: bool = False


Links = Mapping[Node, Sequence[tuple[Node, float]]]


def link_nodes(edges: Sequence[Edge], view: Snapshot) -> Links:
    """The nodes linked to each node, those of the strongest edge first."""
    ends = list(dict.fromkeys(end for edge in edges for end in (edge.source, edge.target)))
    found = np.maximum(view.find(ends), view.find([f"{end}#0" for end in ends])).tolist()
    nodes = {
        end: Node(end, is_chunk=True) if ord >= 0 else Node(node_key(end))
        for end, ord in zip(ends, found, strict=True)
    }
    links: dict[Node, list[tuple[Node, float]]] = {}
    for edge in edges:
        source, target = nodes[edge.source], nodes[edge.target]
        links.setdefault(source, []).append((target, edge.weight))
        links.setdefault(target, []).append((source, edge.weight))
    return {node: sorted(near, key=lambda n: (-n[1], n[0])) for node, near in links.items()}


def edge_charges(seeds: PropagationSeeds, view: Snapshot, charge: float) -> dict[Node, float]:
    """Where given edges are followed from, and with what charge.

    The names of the query and, as chunks, its words have `charge`; the best chunks and their documents
    their share of it, of which their names get a part each.
    """
    charges = dict.fromkeys(map(Node, seeds.query_names), charge)
    # a word of the query may be the id of a chunk too
    charges |= dict.fromkeys((Node(word, is_chunk=True) for word in seeds.query_names), charge)
    if not len(seeds.ords):
        return charges
    masses = (charge * (seeds.strength / seeds.strength[0]) ** 2).tolist()
    written = seeds.written_names or ((),) * len(masses)
    chunks = seeds.chunks or (None,) * len(masses)
    ids, names_held = view.ids(seeds.ords), view.names(seeds.ords)
    for id, held, chunk, own, mass in zip(ids, names_held, chunks, written, masses, strict=True):
        charges[Node(id, is_chunk=True)] = mass
        if chunk is not None and chunk.document:
            charges.setdefault(Node(chunk.document, is_chunk=True), mass)
        labels = dict.fromkeys((*view.labels(held), *own))
        for label in labels:
            charges.setdefault(Node(label), mass / len(labels))
    return charges


def carry(
    charges: Mapping[Node, float], links: Links, *, leak: float, floor: float, hops: int
) -> dict[Node, float]:
    """What reaches each node that was not charged from the start."""
    reached: dict[Node, float] = {}
    current = charges
    for _ in range(hops):
        arriving: dict[Node, float] = {}
        for node in sorted(current):
            for other, weight in links.get(node, ()):
                signal = current[node] * weight * leak
                if signal >= floor and other not in charges:
                    arriving[other] = max(arriving.get(other, 0.0), signal)
        current = {
            node: signal for node, signal in arriving.items() if signal > reached.get(node, 0.0)
        }
        reached |= current
    return reached


def follow_edges(
    view: Snapshot,
    seeds: PropagationSeeds,
    edges: Sequence[Edge],
    by: EdgeRules,
    names_by: NameRules,
    *,
    gain: float,
) -> ScoreBoost | None:
    """What given edges lead to: chunks by their ids, and those that write a name, in whichever case; None if nothing.

    A chunk that one edge of weight 1 leads to from a name of the query gains `gain`, and less the farther and the
    weaker the way is. Of the chunks that write a name, the one that holds most of the query gains most.
    """
    charges = edge_charges(seeds, view, by.charge)
    links = link_nodes(edges, view)
    carried = carry(charges, links, leak=by.leak, floor=by.floor, hops=by.hops)
    if not carried:
        return None
    names, held = find_written_names(view, _strongest_names(carried), limit=names_by.limit)
    masses = np.array([carried[Node(name)] for name in names])
    posting_share = posting_shares(held, gamma=names_by.spread, title=names_by.title)
    flow = masses[held.which] * np.minimum(posting_share, 1.0)
    by_names = receive_by_name(held, flow, seeds.hits, seeds.term_weight, least=names_by.least)
    reached = join(by_names, _find_linked(view, carried, seeds.scores.every))
    whole = by.charge * by.leak or 1.0
    boost = gain * np.minimum(reached.boost / whole, 1.0)
    return ScoreBoost(reached.ords, boost, (NameFlow(held, flow, names),))


def _strongest_names(carried: Mapping[Node, float]) -> list[str]:
    """The names that most mass was carried to."""
    names = {node.text: mass for node, mass in carried.items() if not node.is_chunk}
    return nlargest(MAX_NAMES, names, key=names.__getitem__)


def _find_linked(view: Snapshot, carried: Mapping[Node, float], scores: Floats) -> ScoreBoost:
    """The chunks that edges lead to by their ids; of a document that was split, the one that `scores` best."""
    nodes = sorted(node for node in carried if node.is_chunk)
    linked = view.find([node.text for node in nodes])
    for place in np.flatnonzero(linked < 0).tolist():
        parts = view.find([f"{nodes[place].text}#{n}" for n in range(MAX_PARTS)])
        parts = parts[parts >= 0]
        if len(parts):
            linked[place] = parts[np.argmax(scores[parts])]
    masses = np.array([carried[node] for node in nodes])[linked >= 0]
    ords, slots = np.unique(linked[linked >= 0], return_inverse=True)
    total = np.zeros(len(ords))
    np.add.at(total, slots, masses)
    return ScoreBoost(ords, total)


def receive_by_name(
    names: NamePostings, posting_flow: Floats, hits: Postings, term_weight: Floats, *, least: float
) -> ScoreBoost:
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
    return ScoreBoost(ords, boost)


_TAIL = 400  # characters at the end of a line that are looked at for a question and a remark


def cues(
    query: str, lines: Sequence[str], language: str, *, question: float, other_speaker: float
) -> list[float]:
    """What is left of the score of each line, given as it stands with date and speaker.

    It is `question` of a line that asks, and `other_speaker` of one whose speaker is not the one whom the query names.
    """
    parts = [part(line) for line in lines]
    asked = {*terms_in(query, language)}
    speakers = {line.speaker for line in parts}
    named = {one for one in speakers if not asked.isdisjoint(terms_in(one, language))}
    return [
        (question if _asks(line.body[-_TAIL:]) else 1.0)
        * (other_speaker if len(named) == 1 and line.speaker not in named else 1.0)
        for line in parts
    ]


def _asks(tail: str) -> bool:
    """Whether a text ends with a question mark; a remark in brackets may follow it."""
    if _ends_with_mark(tail):
        return True
    body, bracket, remark = tail.rstrip().rpartition("[")
    return bool(bracket) and remark.find("]") == len(remark) - 1 and _ends_with_mark(body)


def _ends_with_mark(text: str) -> bool:
    for sign in reversed(text):
        if sign in "?？؟":
            return True
        if sign.isalnum() or sign == "_":
            return False
    return False
