"""Left over: is what remains beside the window still worth showing?

When the window shows the best of a ranking already, the rest fills a budget without adding to the answer. A chunk is left
over when it was ranked well below the best one that the window shows, and holds nothing of the question that those do not.
"""

from collections.abc import Sequence

from headgate.notes import Stage
from headgate.relevance.query_terms import Vocabulary, ask, holds
from headgate.types import SIDE, Candidate

# Over 19 labeled sets, with all evidence in the window the best of the rest has half of the best score at the median;
# with half of the evidence in the window the best of the rest has four fifths.
SHARE = 0.6
_RANKING = frozenset({Stage.RETRIEVE, Stage.PROPAGATE})


def is_left_over(
    query: str, rest: Sequence[Candidate], seen: Sequence[Candidate], words: Vocabulary
) -> bool:
    """Whether every one of the rest is left over beside what the window shows already."""
    question = ask(query, words)
    told = frozenset().union(*(holds(question, c.chunk, words.language) for c in seen))
    enough = SHARE * max((_ranked(c) for c in seen), default=0.0)
    return all(
        c.chunk.source not in SIDE
        and _ranked(c) < enough
        and holds(question, c.chunk, words.language) <= told
        for c in rest
    )


def _ranked(candidate: Candidate) -> float:
    """The score with which a candidate was found, before the window was looked at."""
    scores = [note.score for note in candidate.notes if note.stage in _RANKING]
    return scores[-1] if scores else candidate.score
