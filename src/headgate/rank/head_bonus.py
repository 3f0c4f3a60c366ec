"""Heads: query terms in a chunk's title, or in its first words where it has none, count once more.

What a text is about stands at its head. The title's counts are part of the lexical score, but drown there in the
saturation of the body's; as a field of its own a head adds idf for each query term that it holds:

    heads(d) = Σ_t idf_t [t in head(d)]
"""

import numpy as np

from headgate.protocols import Spots
from headgate.rank.fields import TITLE
from headgate.rank.lexical import Floats, sum_at


def heads(spots: Spots, rare: dict[int, float], count: int, *, lead: int) -> Floats:
    """For each of `count` chunks, the rarity of the query terms in its head: its title, else its first `lead` terms."""
    inside = np.where(spots.titled, spots.field == TITLE, spots.position < lead)
    held = {*zip(spots.owner[inside].tolist(), spots.terms[inside].tolist(), strict=True)}
    whose = np.array([owner for owner, _ in sorted(held)], np.int64)
    return sum_at(whose, np.array([rare[key] for _, key in sorted(held)], float), count)
