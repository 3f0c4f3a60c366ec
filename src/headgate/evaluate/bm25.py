"""BM25 as a baseline: plain scores over the same terms, filling the same budget under the same counter and framing.

The terms are those of the index (the language's stems, stopwords left out, identifiers in parts), k1 1.2 and b .75; a
title counts as text. What does not fit is skipped and smaller ones after it are taken: a strong baseline, so that a
gain over it is a gain of the ranking and the packing alone.
"""

from collections.abc import Callable, Iterable, Sequence

from headgate.protocols import Postings
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.types import Candidate


def rank(query: str, view: Postings) -> tuple[Candidate, ...]:
    """The chunks by their BM25 score, best first."""
    return retrieve(query, view, RetrievePolicy(mode="rrf")).kept


def fill(
    ranking: Iterable[Candidate], room: int, cost: Callable[[Candidate], int]
) -> list[Candidate]:
    """What of a ranking enters the room, in its order, skipping what does not fit."""
    chosen = []
    for candidate in ranking:
        tokens = cost(candidate)
        if tokens <= room:
            chosen.append(candidate)
            room -= tokens
    return chosen


def documents(chosen: Sequence[Candidate]) -> set[str]:
    """The documents that some candidates are from."""
    return {candidate.chunk.document for candidate in chosen}
