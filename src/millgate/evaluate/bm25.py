"""BM25 as a baseline: plain scores over the same terms, filling the same budget under the same counter and framing.

The terms are those of the index (the language's stems, stopwords left out, identifiers in parts), k1 1.2 and b .75; a
title counts as text. What does not fit is skipped and smaller ones after it are taken: a strong baseline, so that a
gain over it is a gain of the ranking and the packing alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from millgate.protocols import Snapshot
from millgate.ranking.arrays import top
from millgate.ranking.score import Weighing, idf, lexical, read_chunks
from millgate.text.terms import word_terms
from millgate.text.tokens import tokens_by_size
from millgate.types import Candidate

DEPTH = 300  # chunks of a ranking: more than fill 4 096 tokens, but for very short lines
LENGTH = 0.2  # measured: +.01 on encyclopedic and technical text


def rank(query: str, view: Snapshot) -> tuple[Candidate, ...]:
    """The chunks by their BM25 score, best first."""
    times = Counter(chain.from_iterable(word_terms(query, view.language)))
    keys = np.array(sorted(times), np.uint64)
    hits = view.postings(keys)
    asked = np.array([times[key] for key in keys.tolist()], float)
    scores = lexical(view, keys, hits, asked * idf(view.count, hits.counts), Weighing())
    chunks = read_chunks(view, top(scores, DEPTH, view))
    return tuple(Candidate(chunk, float(scores[ord])) for ord, chunk in chunks.items())


def fill(
    ranking: Iterable[Candidate], budget: float, cost: Callable[[Candidate], float]
) -> list[Candidate]:
    """The candidates of a ranking that fit the budget, in its order; those that do not fit are skipped."""
    chosen = []
    for candidate in ranking:
        tokens = cost(candidate)
        if tokens <= budget:
            chosen.append(candidate)
            budget -= tokens
    return chosen


def order_by_value(ranking: Iterable[Candidate], *, talk: bool) -> list[Candidate]:
    """The candidates by score / tokens^.2: two short ones are worth more than a long one. In conversations, where all
    are short, by score alone.
    """
    power = 0.0 if talk else LENGTH
    return sorted(ranking, key=lambda c: -c.score / max(size(c), 0.25) ** power)


def size(candidate: Candidate) -> float:
    """Tokens of a candidate with its title, by four characters a token, as other retrievers are measured."""
    chunk = candidate.chunk
    return tokens_by_size(len(chunk.text) + (len(chunk.title) + 2 if chunk.title else 0))
