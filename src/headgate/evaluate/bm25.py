"""BM25 as a baseline: plain scores over the same terms, filling the same budget under the same counter and framing.

The terms are those of the index (the language's stems, stopwords left out, identifiers in parts), k1 1.2 and b .75; a
title counts as text. What does not fit is skipped and smaller ones after it are taken: a strong baseline, so that a
gain over it is a gain of the ranking and the packing alone. `fill_budget` packs a ranking of ours.
"""

from collections.abc import Callable, Iterable, Sequence

from headgate.protocols import Snapshot
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.types import Candidate


def rank(query: str, view: Snapshot) -> tuple[Candidate, ...]:
    """The chunks by their BM25 score, best first."""
    return retrieve(query, view, RetrievePolicy(mode="rrf")).kept


def fill(
    ranking: Iterable[Candidate], budget: int, cost: Callable[[Candidate], int]
) -> list[Candidate]:
    """The candidates of a ranking that fit the budget, in its order; those that do not fit are skipped."""
    chosen = []
    for candidate in ranking:
        tokens = cost(candidate)
        if tokens <= budget:
            chosen.append(candidate)
            budget -= tokens
    return chosen


def documents(chosen: Sequence[Candidate]) -> set[str]:
    """The documents that some candidates are from."""
    return {candidate.chunk.document for candidate in chosen}


LENGTH = 0.2  # measured: +.01 on encyclopedic and technical text


def size(candidate: Candidate) -> float:
    """Tokens of a candidate with its title, by four characters a token."""
    chunk = candidate.chunk
    return (len(chunk.text) + (len(chunk.title) + 2 if chunk.title else 0)) / 4


def fill_budget(
    ranking: Sequence[Candidate],
    budget: int,
    *,
    talk: bool,
    cost: Callable[[Candidate], float] = size,
) -> list[Candidate]:
    """The candidates that fit the budget, where `cost` counts the tokens of each, by score / tokens^.2: two short ones
    are worth more than a long one. In conversations, where all are short, by score alone.
    """
    power = 0.0 if talk else LENGTH
    chosen, used = [], 0.0
    for candidate in sorted(ranking, key=lambda c: -c.score / max(size(c), 0.25) ** power):
        if used + (tokens := cost(candidate)) <= budget:
            chosen.append(candidate)
            used += tokens
    return chosen
