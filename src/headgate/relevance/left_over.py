"""Left over: is what remains beside the window still worth showing?

When the window shows the best of a ranking already, the rest fills a budget without adding to the answer. What a chunk
adds:

    adds(d) = (score(d) / score(best) + held(d) / held(best)) / 2 + new(d)

over the best that the window shows; held is the share of the question in a chunk, and new the share that the window
does not hold. When every chunk of the rest adds less than LEAST, all of it is left over.
"""

from collections.abc import Sequence

from headgate.notes import Stage
from headgate.relevance.query_terms import Question, match
from headgate.types import SIDE_SOURCES, Candidate

# Over nine labeled sets: with all evidence in the window everything else is left over for .36 of the questions; with
# half of it .018 of the other half is lost. At .75: .41, .033.
LEAST = 0.7
_RANKING = frozenset({Stage.RETRIEVE, Stage.PROPAGATE})


def is_left_over(
    question: Question, rest: Sequence[Candidate], seen: Sequence[Candidate], language: str
) -> bool:
    """Whether every one of the rest is left over beside what the window shows already."""
    held = [one.held for one in match(question, [c.chunk for c in (*seen, *rest)], language)]
    shown, others = held[: len(seen)], held[len(seen) :]
    best = max((_ranking_score(c) for c in seen), default=0.0)
    most = max(map(question.sum, shown), default=0.0)
    if best <= 0 or most <= 0:
        return False
    open_terms = question.asked.difference(*shown)
    for candidate, own in zip(rest, others, strict=True):
        near = (_ranking_score(candidate) / best + question.sum(own) / most) / 2
        adds = near + question.sum(open_terms & own) / question.total
        if candidate.chunk.source in SIDE_SOURCES or adds >= LEAST:
            return False
    return True


def _ranking_score(candidate: Candidate) -> float:
    """The score with which a candidate was found, before it was compared with the window."""
    scores = [note.score for note in candidate.notes if note.stage in _RANKING]
    return scores[-1] if scores else candidate.score
