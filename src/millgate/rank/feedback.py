"""Feedback: terms of the best chunks, asked for once more (pseudo-relevance feedback).

The best chunks use the collection's words, even if the query does not. Each chunk's weighted terms count by the square
of its score; the strongest new terms are asked for. Very common terms are left out.
If these terms fit another chunk better than the best one, they lead away from the question. Mostly that is another of
the best chunks, so these are compared first: then no postings are read.
"""

import numpy as np

from millgate.protocols import Snapshot, TokenStreams
from millgate.rank.fields import DATE, SPEAKER, TITLE
from millgate.rank.lexical import (
    Floats,
    Ints,
    Keys,
    Weighing,
    distinct,
    idf,
    lexical,
    lexical_of_few,
    number_keys,
    saturate,
    sum_at,
    within,
)


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
    found = None if view.conversational and by.near else view.token_streams(seeds)
    vocabulary, slots, who, value = contents(view, seeds, by, found)
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
    if found is not None:
        own = lexical_of_few(view, seeds, found, chosen, term_weight, by=by)
        if own[0] < agreement * own.max():
            return None
    feedback_scores = lexical(view, chosen, view.postings(chosen), term_weight, by)
    peak = float(feedback_scores.max())
    if not peak or feedback_scores[seeds[0]] < agreement * peak:
        return None
    feedback_scores *= height / peak
    return feedback_scores


def contents(
    view: Snapshot, ords: Ints, by: Weighing, found: TokenStreams | None = None
) -> tuple[Keys, Ints, Ints, Floats]:
    """The terms of some chunks; then which term, owner (index into ords) and saturated count, idf left out.

    `found` are their terms, if the caller has them already; in a conversation more than these are read.
    """
    talk = view.conversational and bool(by.near)
    asked, owner, share = _around(view, ords, by) if talk else (ords, np.arange(len(ords)), None)
    if talk or found is None:
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
