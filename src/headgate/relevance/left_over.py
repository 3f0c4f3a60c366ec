"""Left over: is what remains beside the window still worth showing?

When the window shows the best of a ranking already, the rest fills a budget without adding to the answer. A chunk is left
over when its score over the best one that the window shows, and the share of the question that it holds and those do not,
are small together.
"""

from collections.abc import Sequence

from headgate.notes import Stage
from headgate.relevance.query_terms import ask, holds
from headgate.relevance.vocabulary import Vocabulary
from headgate.types import SIDE, Candidate

# Over nine labeled sets: with all evidence in the window everything else is left over for .29 of the questions; with half of
# the evidence in it .014 of the other half is lost, with a wrong chunk in it .002 of the evidence. At .7: .38, .037, .008.
LEAST = 0.6
_RANKING = frozenset({Stage.RETRIEVE, Stage.PROPAGATE})


def is_left_over(
    query: str, rest: Sequence[Candidate], seen: Sequence[Candidate], words: Vocabulary
) -> bool:
    """Whether every one of the rest is left over beside what the window shows already."""
    question = ask(query, words)
    best = max((_ranked(c) for c in seen), default=0.0)
    if best <= 0:
        return False
    open_terms = question.asked.difference(
        *(holds(question, c.chunk, words.language) for c in seen)
    )

    def adds(candidate: Candidate) -> float:
        new = question.sum(open_terms & holds(question, candidate.chunk, words.language))
        return _ranked(candidate) / best + new / question.total

    return all(c.chunk.source not in SIDE and adds(c) < LEAST for c in rest)


def _ranked(candidate: Candidate) -> float:
    """The score with which a candidate was found, before the window was looked at."""
    scores = [note.score for note in candidate.notes if note.stage in _RANKING]
    return scores[-1] if scores else candidate.score
