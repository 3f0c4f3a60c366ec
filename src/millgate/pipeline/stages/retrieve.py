"""Retrieve: the chunks of a collection that answer a query best.

A fielded lexical score L with neighbors in conversations and a bonus for phrases and heads;
then feedback from the best 8, if the best chunk agrees with it: s1 = norm(L + .5 E / max E). With embeddings
D = min-max of the nearest cosines and s1 = norm(L + .5 E / max E + .5 open max(0, D - .75 D(best))), where `best` is
the best chunk by words and `open` the share of the query that it leaves open.
The found chunks carry s1; a note's `share` is the part of the query's lexical weight that the chunk holds, and the
other numbers are what words, phrases, heads and related terms (feedback and vectors) add to s1.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from millgate.protocols import Postings, Snapshot
from millgate.ranking.arrays import Floats, Ints, Keys, best, top, within
from millgate.ranking.question import read_query
from millgate.ranking.score import (
    K1,
    SEEDS,
    B,
    Found,
    RankingScores,
    Weighing,
    feedback,
    heads,
    idf,
    lexical,
    phrases,
    read_chunks,
)
from millgate.text.lazy_pattern import lazy_compile
from millgate.types import Candidate
from millgate.types.notes import Fate, Note, NoteCode, Stage
from millgate.types.policy import Count, Policy, PositiveCount, Tuning, Unit, Weight

_FOUND = Stage.RETRIEVE, Fate.ADD, NoteCode.FOUND
# A query of fewer words stands in many texts by chance; one of more is a text itself.
_QUOTED_WORDS, MOST_QUOTED_WORDS = 3, 60
_WORD = lazy_compile(r"\w+")
_DECIMALS = 4  # of the numbers that a note tells
_FEW = 1 / 16  # share of all chunks up to which a part is looked through faster than all


class RetrievePolicy(Policy):
    """How chunks are found and scored."""

    keep: Tuning[PositiveCount] = 100
    """How many chunks to hand on."""
    k1: Tuning[Weight] = K1
    """Saturation: how soon more of the same term stops counting."""
    b: Tuning[Unit] = B
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
    match = _match_terms(read_query(query, view) if terms is None else terms, view, policy)
    near = view.nearest(vector, policy.dense_depth) if vector is not None else None
    every, seeds, strength = _score(view, match, near, policy)
    if every is match.scores and policy.keep <= len(match.best):
        kept = _rank(view, every, match.best, policy.keep)
    else:
        kept = top(every, policy.keep, view, some=match.best)
    scores = every[kept]
    peak = float(scores[0]) if len(kept) else 1.0
    scores /= peak
    parts = {"share": np.minimum(match.scores[kept] / match.ceiling, 1.0)}
    parts |= _parts(match, kept, scores, peak)
    found, ords = _read_candidates(view, kept, scores, parts)
    ranking = RankingScores(every, seeds, strength, ords, len(found), match.hits)
    found = _put_quotes_first(query, found)
    return Found(kept=found, added=found, scores=ranking)


def _put_quotes_first(query: str, found: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The candidates with those first that say the query word for word: as a title or a line, or within their text."""
    asked = _WORD.findall(query.casefold())
    if not _QUOTED_WORDS <= len(asked) <= MOST_QUOTED_WORDS:
        return found
    quote = re.compile(r"\b" + r"\W+".join(map(re.escape, asked)) + r"\b", re.IGNORECASE)
    line = re.compile(rf"^\W*{quote.pattern}\W*$", re.IGNORECASE | re.MULTILINE)
    said = [
        2 if line.search(c.chunk.title) or line.search(c.chunk.text)
        else 1 if quote.search(c.chunk.text) else 0
        for c in found
    ]  # fmt: skip
    if not any(said):
        return found
    lifted = [_lift(c, how) for c, how in zip(found, said, strict=True)]
    return tuple(sorted(lifted, key=lambda c: -c.score))


def _lift(candidate: Candidate, said: int) -> Candidate:
    """A candidate with its place among those that say the query, or below them."""
    least, scale = ((0.0, 0.85), (0.9, 0.05), (0.95, 0.05))[said]
    score, note = least + scale * candidate.score, candidate.notes[-1]
    numbers = {**note.numbers, "quotes": said} if said else note.numbers
    return replace(candidate, score=score, notes=(*candidate.notes[:-1], replace(note, score=score, numbers=numbers)))  # fmt: skip


def _score(
    view: Snapshot, match: "_Match", near: tuple[Ints, Floats] | None, policy: RetrievePolicy
) -> tuple[Floats, Ints, Floats]:
    """Every chunk's score by words, feedback and vectors; the seeds of propagation, best first, and their scores.

    The seeds are the best by words alone, or by vectors if no chunk holds a word of the query.
    """
    seeds = _rank(view, match.scores, match.best, SEEDS)
    every = _add_feedback(view, match, seeds[: policy.feedback_depth], policy)
    if near is not None and len(near[0]):
        every = _add_similarity(every, match, seeds, near, policy)
        if not len(seeds):
            seeds = _rank(view, every, near[0], SEEDS)
            return every, seeds, every[seeds]
    return every, seeds, match.scores[seeds]


def _parts(match: "_Match", kept: Ints, scores: Floats, peak: float) -> dict[str, Floats]:
    """What words, each bonus and related terms add to the scores of the kept chunks."""
    order = match.looked_at.argsort()
    looked_at = match.looked_at[order]
    has = within(looked_at, kept)
    at = order[looked_at.searchsorted(kept[has])]
    parts = {"words": match.scores[kept] / peak}
    for name, bonus in match.bonuses.items():
        parts[name] = np.zeros(len(kept))
        parts[name][has] = bonus[at] / peak
        parts["words"] -= parts[name]
    parts["related"] = scores - match.scores[kept] / peak
    return {name: np.round(values, _DECIMALS) for name, values in parts.items()}


def _read_candidates(
    view: Snapshot, ords: Ints, scores: Floats, parts: Mapping[str, Floats]
) -> tuple[tuple[Candidate, ...], Ints]:
    """The chunks at some ordinals as candidates, and the ordinals of those that are still there.

    `parts` are numbers for their notes; one that is 0 for all is left out.
    """
    chunks = read_chunks(view, ords)
    there = np.array([ord in chunks for ord in ords.tolist()], bool)
    told = [name for name, values in parts.items() if name == "share" or values.any()]
    numbers = zip(*(parts[name][there].tolist() for name in told), strict=True)
    rows = zip(chunks.values(), scores[there].tolist(), numbers, strict=True)
    found = tuple(
        Candidate(chunk, score, (Note(*_FOUND, score, dict(zip(told, own, strict=True))),))
        for chunk, score, own in rows
    )
    return found, ords[there]


@dataclass(frozen=True, slots=True)
class _Match:
    """How the query's words match."""

    terms: Keys
    hits: Postings
    scores: Floats  # of every chunk
    best: Ints  # the best chunks, best first
    ceiling: float  # the highest score that a chunk can have
    left_open: float = (
        1.0  # share of the query's weight that the best chunk lacks; unseen words count
    )
    looked_at: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    bonuses: Mapping[str, Floats] = field(default_factory=dict)  # of each chunk looked at


def _weighing(policy: RetrievePolicy) -> Weighing:
    return Weighing(
        policy.k1, policy.b, policy.title, policy.speaker, policy.date, policy.neighbor_weights
    )


def _match_terms(
    words: Sequence[tuple[int, ...]], view: Snapshot, policy: RetrievePolicy
) -> _Match:
    times_asked = Counter(chain.from_iterable(words))
    keys = np.array(sorted(times_asked), np.uint64)
    times = np.array([times_asked[key] for key in sorted(times_asked)], np.int64)
    hits = view.postings(keys)
    known = hits.counts > 0
    if not known.any():
        return _Match(keys, hits, np.zeros(view.size), np.zeros(0, np.int64), 1.0)
    by = _weighing(policy)
    term_idf = idf(view.count, hits.counts)
    weights = times * known.astype(float)
    scores = lexical(view, keys, hits, weights * term_idf, by)
    depth = max(policy.phrase_depth, SEEDS)
    leads = top(scores, depth, view, some=_shortest_list(hits, depth, view.size))
    looked_at = leads[: policy.phrase_depth]
    known_idf = dict(zip(keys[known].tolist(), term_idf[known].tolist(), strict=True))
    bonuses = _find_bonuses(view, looked_at, words, known_idf, policy)
    for bonus in bonuses.values():
        scores[looked_at] += bonus
    ceiling, whole = (float((n * term_idf).sum() * (by.k1 + 1)) for n in (weights, times))
    left_open = 1.0 - min(float(scores[leads].max()) / whole, 1.0)
    return _Match(keys, hits, scores, leads, ceiling, left_open, looked_at, bonuses)


def _shortest_list(hits: Postings, least: int, size: int) -> Ints | None:
    """The chunks of the rarest term that at least `least` hold; None if that is a large part of all."""
    lengths = hits.counts[hits.counts >= least]
    if not len(lengths) or (length := int(lengths.min())) > size * _FEW:
        return None
    begin = int(hits.counts[: hits.counts.tolist().index(length)].sum())
    return hits.ords[begin : begin + length]


def _find_bonuses(
    view: Snapshot,
    few: Ints,
    asked: Sequence[tuple[int, ...]],
    term_idf: dict[int, float],
    policy: RetrievePolicy,
) -> dict[str, Floats]:
    """What only a look at the best chunks tells: phrases, and query terms at the head."""
    if not policy.phrase and not policy.head_weight:
        return {}
    bonuses = {}
    spots = view.term_positions(few, np.array(sorted({*chain(*asked)}), np.uint64))
    if policy.phrase:
        by = _weighing(policy)
        bonuses["phrases"] = policy.phrase * phrases(view, few, spots, asked, term_idf, by=by)
    if policy.head_weight and not view.conversational:
        bonuses["heads"] = policy.head_weight * heads(spots, term_idf, len(few), lead=policy.lead)
    return bonuses


def _rank(view: Snapshot, scores: Floats, some: Ints, most: int) -> Ints:
    """The best of some chunks, best first; chunks without a score are left out."""
    ranked = some[best(scores[some], most, some, view)]
    return ranked[scores[ranked] > 0]


def _add_feedback(view: Snapshot, match: _Match, seeds: Ints, policy: RetrievePolicy) -> Floats:
    """The lexical score with feedback from its best chunks, which are given best first."""
    first = match.scores
    if not len(seeds) or not policy.feedback or not policy.feedback_terms:
        return first
    feedback_scores = feedback(
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
    if feedback_scores is None:
        return first
    feedback_scores += first
    return feedback_scores


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
