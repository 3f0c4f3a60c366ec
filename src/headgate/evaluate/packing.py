"""Packing: which candidates of a ranking enter a budget.

By score / tokens^.2, since two short chunks are worth more than a long one (in conversations by score alone,
where all are short); what does not fit is skipped, and smaller ones after it are still taken.
"""

from collections.abc import Callable, Sequence

from headgate.types import Candidate

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
    """The candidates that fit the budget, where `cost` counts the tokens of each."""
    power = 0.0 if talk else LENGTH
    chosen, used = [], 0.0
    for candidate in sorted(ranking, key=lambda c: -c.score / max(size(c), 0.25) ** power):
        if used + (tokens := cost(candidate)) <= budget:
            chosen.append(candidate)
            used += tokens
    return chosen
