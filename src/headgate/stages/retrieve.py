"""Retrieve: the chunks of a collection that answer a query best.

"scored" (default): a fielded lexical score L with neighbors in conversations and a bonus for phrases and heads;
then feedback from the best 8, where the best chunk agrees with it: s1 = norm(L + .5 E / max E). With embeddings
D = min-max of the nearest cosines and s1 = norm(L + .5 E / max E + .5 open max(0, D - .75 D(best))), where `best` is
the best chunk by words and `open` the share of the query that it leaves open. "rrf": Σ 1 / (60 + rank) over plain BM25
and cosine.
Without embeddings either is lexical alone.
The found chunks carry s1; a note's `share` is the part of the query's lexical weight that the chunk holds.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from headgate.notes import Fate, Note, NoteCode, Stage
from headgate.policy import Count, Policy, PositiveCount, Tuning, Unit, Weight
from headgate.protocols import Postings, Snapshot
from headgate.rank.feedback import feedback
from headgate.rank.lexical import Floats, Ints, Keys, Weighing, heads, lexical, phrases, rarity
from headgate.rank.top import SEEDS, Found, Scores, best, read_chunks, top
from headgate.relevance.query_rewrite import read_query
from headgate.text.terms import word_terms
from headgate.types import Candidate

_FOUND = Stage.RETRIEVE, Fate.ADD, NoteCode.FOUND
_FEW = 1 / 16  # of all chunks: so many are looked through faster than all
PLAIN = Weighing(k1=1.2, b=0.75, title=1.0)  # BM25 as it is commonly set


class RetrievePolicy(Policy):
    """How chunks are found and scored."""

    mode: Literal["scored", "rrf"] = "scored"
    """"scored" joins scores; "rrf" joins ranks by reciprocal rank fusion."""
    keep: Tuning[PositiveCount] = 100
    """How many chunks to hand on."""
    k1: Tuning[Weight] = 1.2
    """Saturation: how soon more of the same term stops counting."""
    b: Tuning[Unit] = 0.75
    """How much longer chunks are discounted."""
    title: Tuning[Weight] = 2.0
    """A title's term counts this many times."""
    speaker: Tuning[Weight] = 3.0
    """Conversations: what a query term in the speaker's name adds."""
    date: Tuning[Weight] = 1.0
    """Conversations: what a query term in the date adds."""
    neighbor_weights: Tuning[tuple[Unit, ...]] = (0.5, 0.3)
    """Conversations: weight of the counts of lines one, two, ... away."""
    phrase: Tuning[Weight] = 0.5
    """Weight of the bonus for two neighboring query terms side by side."""
    phrase_depth: Tuning[Count] = 100
    """How many of the best chunks are looked at for phrases and heads."""
    head_weight: Tuning[Weight] = 0.5
    """Documents: weight of the bonus for query terms in a title, or in the first words of an untitled text."""
    lead: Tuning[Count] = 6
    """How many terms are the first words of an untitled text: a signature or a heading, less than a sentence."""
    lead_repetition: Tuning[Unit] = 0.15
    """The share of their terms that chunks must repeat for their first words to count: a text comes back to what it is
    about, records in a row do not. Code has .4 to .5, prose .17 to .4, lists of messages and records .07 to .14."""
    dense: Tuning[Weight] = 0.5
    """Weight of the embedding's similarity beside the lexical score, times what words leave open of the query."""
    dense_least: Tuning[Unit] = 0.75
    """Similarity counts above this share of that of the best chunk by words."""
    dense_depth: Tuning[PositiveCount] = 300
    """How many nearest chunks count as similar at all."""
    feedback: Tuning[Weight] = 0.5
    """Weight of the score for the best chunks' own terms."""
    feedback_depth: Tuning[Annotated[int, Field(ge=0, le=SEEDS)]] = 8
    """How many of the best chunks give terms."""
    feedback_terms: Tuning[Count] = 20
    """How many new terms they give."""
    feedback_common: Tuning[Unit] = 0.2
    """Terms in more than this share of the chunks give no feedback ..."""
    feedback_cap: Tuning[PositiveCount] = 20_000
    """... nor do terms in more than this many chunks, which bounds the work."""
    feedback_agreement: Tuning[Unit] = 0.9
    """The share of the highest feedback score that the best chunk must have: with less, the terms lead away."""
    rank_constant: Tuning[PositiveCount] = 60
    """"rrf": the constant beside the rank."""


def retrieve(
    query: str,
    view: Snapshot,
    policy: RetrievePolicy,
    *,
    vector: npt.ArrayLike | None = None,
    terms: Sequence[tuple[int, ...]] | None = None,
) -> Found:
    """The best chunks for a query, best first; `vector` is its embedding if there is one.

    `terms` are what `read_query` gives for the same query and collection, if the caller has read it already.
    """
    if not view.count:
        return Found()
    if policy.mode == "rrf":
        terms = word_terms(query, view.language)  # plain BM25 takes words as they are
    match = _match_terms(read_query(query, view) if terms is None else terms, view, policy)
    near = view.nearest(vector, policy.dense_depth) if vector is not None else None
    if policy.mode == "rrf":
        first = final = _fuse_ranks(view, match, near, policy)
        seeds = top(first, SEEDS, view.reading_order_key)
    else:
        first, seeds = match.scores, _rank(view, match.scores, match.best, SEEDS)
        final = _add_feedback(view, match, seeds[: policy.feedback_depth], policy)
        if near is not None and len(near[0]):
            final = _add_similarity(final, match, seeds, near, policy)
            if not len(seeds):
                first, seeds = final, _rank(view, final, near[0], SEEDS)
    if final is match.scores and policy.keep <= len(match.best):
        kept = _rank(view, final, match.best, policy.keep)
    else:
        kept = top(final, policy.keep, view.reading_order_key, some=match.best)
    scores = final[kept]
    if policy.mode != "rrf" and len(kept):
        scores /= scores[0]
    share = np.minimum(match.scores[kept] / match.ceiling, 1.0)
    chunks = read_chunks(view, kept)
    there = np.array([ord in chunks for ord in kept.tolist()], bool)
    rows = zip(chunks.values(), scores[there].tolist(), share[there].tolist(), strict=True)
    found = tuple(
        Candidate(chunk, score, (Note(*_FOUND, score, {"share": part}),))
        for chunk, score, part in rows
    )
    numbers = Scores(final, seeds, first[seeds], kept[there], len(found), match.hits)
    return Found(kept=found, added=found, scores=numbers)


@dataclass(frozen=True, slots=True)
class _Match:
    """How the query's words match: the terms, who holds them, every chunk's score, the best chunks, the highest score
    there is, and the share of the query's weight that the best chunk does not hold, words that no chunk has included.
    """

    terms: Keys
    hits: Postings
    scores: Floats
    best: Ints
    ceiling: float
    left_open: float = 1.0


def _weighing(policy: RetrievePolicy) -> Weighing:
    if policy.mode == "rrf":
        return PLAIN
    return Weighing(
        policy.k1, policy.b, policy.title, policy.speaker, policy.date, policy.neighbor_weights
    )


def _match_terms(
    words: Sequence[tuple[int, ...]], view: Snapshot, policy: RetrievePolicy
) -> _Match:
    said = Counter(chain.from_iterable(words))
    keys = np.array(sorted(said), np.uint64)
    times = np.array([said[key] for key in sorted(said)], np.int64)
    hits = view.postings(keys)
    known = hits.counts > 0
    if not known.any():
        return _Match(keys, hits, np.zeros(view.size), np.zeros(0, np.int64), 1.0)
    by = _weighing(policy)
    idf = rarity(view.count, view.frequencies(keys) if view.narrowed_to else hits.counts)
    weights = times * known.astype(float)
    scores = lexical(view, keys, hits, weights * idf, by)
    depth = policy.dense_depth if policy.mode == "rrf" else max(policy.phrase_depth, SEEDS)
    leads = top(scores, depth, view.reading_order_key, some=_shortest_list(hits, depth, view.size))
    if policy.mode == "scored":
        rare = dict(zip(keys[known].tolist(), idf[known].tolist(), strict=True))
        _add_bonuses(view, leads[: policy.phrase_depth], words, rare, scores, policy=policy)
    ceiling, whole = (float((n * idf).sum() * (by.k1 + 1)) for n in (weights, times))
    left_open = 1.0 - min(float(scores[leads].max()) / whole, 1.0)
    return _Match(keys, hits, scores, leads, ceiling, left_open)


def _shortest_list(hits: Postings, least: int, size: int) -> Ints | None:
    """The chunks of the rarest term that at least so many hold; None where that is a large part of all."""
    lengths = hits.counts[hits.counts >= least]
    if not len(lengths) or (length := int(lengths.min())) > size * _FEW:
        return None
    begin = int(hits.counts[: hits.counts.tolist().index(length)].sum())
    return hits.ords[begin : begin + length]


def _add_bonuses(
    view: Snapshot,
    few: Ints,
    asked: Sequence[tuple[int, ...]],
    rare: dict[int, float],
    scores: Floats,
    *,
    policy: RetrievePolicy,
) -> None:
    """Add what only a look at the best chunks tells: phrases, and query terms at the head."""
    if not policy.phrase and not policy.head_weight:
        return
    spots = view.term_positions(few, np.array(sorted({*chain(*asked)}), np.uint64))
    if policy.phrase:
        by = _weighing(policy)
        scores[few] += policy.phrase * phrases(view, few, spots, asked, rare, by=by)
    if policy.head_weight and not view.conversational:
        lead = policy.lead if view.repetition >= policy.lead_repetition else 0
        scores[few] += policy.head_weight * heads(spots, rare, len(few), lead=lead)


def _rank(view: Snapshot, scores: Floats, some: Ints, most: int) -> Ints:
    """The best of some chunks, best first; chunks without a score are left out."""
    ranked = some[best(scores[some], most, lambda index: view.reading_order_key(some[index]))]
    return ranked[scores[ranked] > 0]


def _add_feedback(view: Snapshot, match: _Match, seeds: Ints, policy: RetrievePolicy) -> Floats:
    """The lexical score with feedback from its best chunks, which are given best first."""
    first = match.scores
    if not len(seeds) or not policy.feedback or not policy.feedback_terms:
        return first
    echo = feedback(
        view,
        seeds,
        first[seeds],
        _weighing(policy),
        known=match.terms,
        terms=policy.feedback_terms,
        common=min(int(policy.feedback_common * view.count), policy.feedback_cap),
        agreement=policy.feedback_agreement,
        height=policy.feedback * float(first[seeds[0]]),
    )
    if echo is None:
        return first
    echo += first
    return echo


def _add_similarity(
    scores: Floats, match: _Match, seeds: Ints, near: tuple[Ints, Floats], policy: RetrievePolicy
) -> Floats:
    """The score with the similarity of the nearest chunks: the more, the less of the query words have found. Where the
    best chunk by words is near too, smaller similarities are noise.
    """
    ords, cosines = near
    share = (cosines - cosines[-1]) / max(cosines[0] - cosines[-1], 1e-9)
    peak = 1.0
    if len(seeds):
        peak = float(match.scores[seeds[0]])
        share -= policy.dense_least * share[ords == seeds[0]].sum()
    joined = scores.copy()
    joined[ords] += policy.dense * match.left_open * peak * np.maximum(share, 0.0)
    return joined


def _fuse_ranks(
    view: Snapshot, match: _Match, near: tuple[Ints, Floats] | None, policy: RetrievePolicy
) -> Floats:
    """Reciprocal rank fusion of the words' ranking and the embedder's."""
    scores = np.zeros(view.size)
    rankings = [match.best[: policy.dense_depth]]
    if near is not None:
        rankings.append(near[0])
    for ranking in rankings:
        scores[ranking] += 1.0 / (policy.rank_constant + 1 + np.arange(len(ranking)))
    return scores
