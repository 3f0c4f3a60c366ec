"""Retrieve: the chunks of a collection that answer a query best.

A fielded lexical score L with neighbors in conversations and a bonus for phrases and heads;
then feedback from the best 8, if the best chunk agrees with it: s1 = norm(L + .5 E / max E). With embeddings
D = min-max of the nearest cosines and s1 = norm(L + .5 E / max E + .5 open max(0, D - .75 D(best))), where `best` is
the best chunk by words and `open` the share of the query that it leaves open.
Chunks that say the query word for word come first.

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
from millgate.ranking.arrays import Floats, Ints, Keys, best, top
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
from millgate.types import Candidate
from millgate.types.notes import Fate, Note, NoteCode, Stage
from millgate.types.policy import Count, Policy, PositiveCount, Tuning, Unit, Weight

# A query of fewer words stands in many texts by chance; one of more is a text itself.
_QUOTED_WORDS, MOST_QUOTED_WORDS = 3, 60
_WORD = re.compile(r"\w+")


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

    @property
    def weighing(self) -> Weighing:
        """The constants of the lexical score."""
        return Weighing(self.k1, self.b, self.title, self.speaker, self.date, self.neighbor_weights)


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
    Propagation starts at the best by words alone, or by vectors if no chunk holds a word of the query.
    """
    if not view.count:
        return Found()
    match = _match_terms(read_query(query, view) if terms is None else terms, view, policy)
    seeds = _rank(view, match.scores, match.best)
    every, sown = _add_feedback(view, match, seeds[: policy.feedback_depth], policy), match.scores
    if vector is not None and len((near := view.nearest(vector, policy.dense_depth))[0]):
        every = _add_similarity(every, match, seeds, near, policy)
        if not len(seeds):
            seeds, sown = _rank(view, every, near[0]), every
    kept = top(every, policy.keep, view)
    peak = float(every[kept[0]]) if len(kept) else 1.0
    found, ords = _note_found(view, match, kept, every[kept] / peak, peak)
    ranking = RankingScores(every, seeds, sown[seeds], ords, len(found), match.hits)
    found = _put_quotes_first(query, found)
    return Found(kept=found, added=found, scores=ranking)


def _put_quotes_first(query: str, found: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The candidates with those first that say the query word for word: as a title or a line, or within their text.

    Nobody judges such questions in labeled sets, and people who paste a heading expect it: of the headings of docs/ .98
    are shown with this, and .92 without.
    """
    asked = _WORD.findall(query.casefold())
    if not _QUOTED_WORDS <= len(asked) <= MOST_QUOTED_WORDS:
        return found
    quote = re.compile(r"\b" + r"\W+".join(map(re.escape, asked)) + r"\b", re.IGNORECASE)
    line = re.compile(rf"^\W*{quote.pattern}\W*$", re.IGNORECASE | re.MULTILINE)
    lifted = []
    for one in found:
        said = f"{one.chunk.title}\n{one.chunk.text}"
        folded = said.casefold()
        is_quoted = all(word in folded for word in asked) and quote.search(said)
        how = 2 if is_quoted and line.search(said) else 1 if is_quoted else 0
        least, scale = ((0.0, 0.85), (0.9, 0.05), (0.95, 0.05))[how]
        score, note = least + scale * one.score, one.notes[-1]
        numbers = {**note.numbers, "quotes": how} if how else note.numbers
        note = replace(note, score=score, numbers=numbers)
        lifted.append(Candidate(one.chunk, score, (*one.notes[:-1], note)))
    is_said = any("quotes" in one.notes[-1].numbers for one in lifted)
    return tuple(sorted(lifted, key=lambda one: -one.score)) if is_said else found


@dataclass(frozen=True, slots=True)
class _Match:
    """How the query's words match: every chunk's score, and the best chunks, best first.

    `ceiling` is the highest score that a chunk can have; `left_open` the share of the query's weight that the best
    chunk lacks, where unseen words count; `bonuses` what is in the scores of chunks beside words, by name and chunk.
    """

    terms: Keys
    hits: Postings
    scores: Floats
    best: Ints
    ceiling: float = 1.0
    left_open: float = 1.0
    bonuses: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


def _match_terms(
    words: Sequence[tuple[int, ...]], view: Snapshot, policy: RetrievePolicy
) -> _Match:
    times_asked = Counter(chain.from_iterable(words))
    keys = np.array(sorted(times_asked), np.uint64)
    times = np.array([times_asked[key] for key in sorted(times_asked)], np.int64)
    hits = view.postings(keys)
    known = hits.counts > 0
    if not known.any():
        return _Match(keys, hits, np.zeros(view.size), np.zeros(0, np.int64))
    by = policy.weighing
    term_idf = idf(view.count, hits.counts)
    weights = times * known.astype(float)
    scores = lexical(view, keys, hits, weights * term_idf, by)
    depth = max(policy.phrase_depth, SEEDS)
    leads = top(scores, depth, view)
    looked_at = leads[: policy.phrase_depth]
    known_idf = dict(zip(keys[known].tolist(), term_idf[known].tolist(), strict=True))
    # only a look at the best chunks tells phrases, and query terms at the head
    spots = view.term_positions(looked_at, keys)
    bonuses = {"phrases": policy.phrase * phrases(view, looked_at, spots, words, known_idf, by=by)}
    if not view.conversational:
        found = heads(spots, known_idf, len(looked_at), lead=policy.lead)
        bonuses["heads"] = policy.head_weight * found
    for bonus in bonuses.values():
        scores[looked_at] += bonus
    ceiling, whole = (float((n * term_idf).sum() * (by.k1 + 1)) for n in (weights, times))
    left_open = 1.0 - min(float(scores[leads].max()) / whole, 1.0)
    at = looked_at.tolist()
    by_chunk = {name: dict(zip(at, bonus.tolist(), strict=True)) for name, bonus in bonuses.items()}
    return _Match(keys, hits, scores, leads, ceiling, left_open, by_chunk)


def _rank(view: Snapshot, scores: Floats, some: Ints) -> Ints:
    """The best of some chunks, best first, from which propagation starts; those without a score are left out."""
    ranked = some[best(scores[some], SEEDS, some, view)]
    return ranked[scores[ranked] > 0]


def _note_found(
    view: Snapshot, match: _Match, kept: Ints, scores: Floats, peak: float
) -> tuple[tuple[Candidate, ...], Ints]:
    """The chunks at some ordinals as candidates, and the ordinals of those that are still there.

    Their notes tell what words, each bonus and related terms add to the score; what adds nothing to any is left out.
    """
    chunks, ords = read_chunks(view, kept), kept.tolist()
    by_words = match.scores[kept] / peak
    parts = {
        name: np.array([bonus.get(ord, 0.0) for ord in ords]) / peak
        for name, bonus in match.bonuses.items()
    }
    parts = {"words": by_words - sum(parts.values()), **parts, "related": scores - by_words}
    told = {"share": np.minimum(match.scores[kept] / match.ceiling, 1.0)}
    told |= {name: np.round(part, 4) for name, part in parts.items() if np.round(part, 4).any()}
    numbers = [part.tolist() for part in told.values()]
    found = [
        Candidate(
            chunks[ord],
            score,
            (Note(Stage.RETRIEVE, Fate.ADD, NoteCode.FOUND, score, dict(zip(told, own, strict=True))),),
        )
        for ord, score, *own in zip(ords, scores.tolist(), *numbers, strict=True)
        if ord in chunks
    ]  # fmt: skip
    return tuple(found), np.array([ord for ord in ords if ord in chunks], np.int64)


def _add_feedback(view: Snapshot, match: _Match, seeds: Ints, policy: RetrievePolicy) -> Floats:
    """The lexical score with feedback from its best chunks, which are given best first."""
    first = match.scores
    if not len(seeds) or not policy.feedback or not policy.feedback_terms:
        return first
    scores = feedback(
        view,
        seeds,
        first[seeds],
        policy.weighing,
        known=match.terms,
        terms=policy.feedback_terms,
        common=min(int(policy.feedback_common * view.count), policy.feedback_cap),
        agreement=policy.feedback_agreement,
        height=policy.feedback * float(first[seeds[0]]),
    )
    return first if scores is None else first + scores


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
