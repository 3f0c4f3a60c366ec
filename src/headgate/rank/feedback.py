"""Feedback: terms of the best chunks, asked for once more (pseudo-relevance feedback).

The best chunks speak the collection's language where the query does not. Their weighted terms, each chunk
counting by the square of its score, give the strongest new terms; very common ones say nothing.
Where these terms fit another chunk better than the best one, they lead away from the question. Mostly that is another
of the best, so they are compared first: then no postings are read.
"""

import numpy as np

from headgate.protocols import Snapshot
from headgate.rank.lexical import (
    Floats,
    Ints,
    Keys,
    Weighing,
    contents,
    lexical,
    lexical_of_few,
    rarity,
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
    idf = rarity(view.count, counts)
    weight = sum_at(slots, share[who] * value, len(vocabulary)) * idf
    weight[(counts > common) | (counts == 0) | within(known, vocabulary)] = 0.0
    best = np.lexsort((vocabulary, -weight))[:terms]
    best = best[weight[best] > 0]
    if not len(best):
        return None
    chosen, worth = vocabulary[best], weight[best] * idf[best]
    if found is not None:
        own = lexical_of_few(view, seeds, found, chosen, worth, by=by)
        if own[0] < agreement * own.max():
            return None
    echo = lexical(view, chosen, view.postings(chosen), worth, by)
    peak = float(echo.max())
    if not peak or echo[seeds[0]] < agreement * peak:
        return None
    echo *= height / peak
    return echo
