"""Feedback: terms of the best chunks, asked for once more (pseudo-relevance feedback).

The best chunks speak the collection's language where the query does not. Their weighted terms, each chunk
counting by the square of its score, give the strongest new terms; very common ones say nothing.
"""

import numpy as np

from headgate.protocols import Postings
from headgate.rank.lexical import (
    Floats,
    Ints,
    Keys,
    Weighing,
    contents,
    lexical,
    rarity,
    sum_at,
    within,
)


def feedback(
    view: Postings,
    seeds: Ints,
    strength: Floats,
    by: Weighing,
    *,
    known: Keys,
    terms: int,
    common: int,
) -> Floats | None:
    """The lexical score of every chunk for the seeds' best terms, or None when they have no new one."""
    keys, who, value = contents(view, seeds, by)
    share = strength**2 / (strength**2).sum()
    vocabulary, slots = np.unique(keys, return_inverse=True)
    counts = view.frequencies(vocabulary)
    weight = sum_at(slots, share[who] * value, len(vocabulary))
    weight *= rarity(view.count, counts)
    weight[(counts > common) | (counts == 0) | within(known, vocabulary)] = 0.0
    best = np.lexsort((vocabulary, -weight))[:terms]
    best = best[weight[best] > 0]
    if not len(best):
        return None
    chosen = vocabulary[best]
    return lexical(view, chosen, view.postings(chosen), weight[best], by)
