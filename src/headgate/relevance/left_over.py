"""Left over: is what remains beside the window still worth showing?

When the window shows the best of a ranking already, the rest fills a budget without adding to the answer. A chunk is left
over when it was ranked below half of the best one that the window shows.
"""

from collections.abc import Sequence

from headgate.notes import Stage
from headgate.types import SIDE, Candidate

# Over nine labeled sets: with all evidence in the window everything else is left over for a third of the questions; with
# half of the evidence, or only a wrong chunk, in the window .016 and .000 of the rest is lost. At .6 it is .40, .031, .013.
SHARE = 0.5
_RANKING = frozenset({Stage.RETRIEVE, Stage.PROPAGATE})


def is_left_over(rest: Sequence[Candidate], seen: Sequence[Candidate]) -> bool:
    """Whether every one of the rest is left over beside what the window shows already."""
    enough = SHARE * max((_ranked(c) for c in seen), default=0.0)
    return all(c.chunk.source not in SIDE and _ranked(c) < enough for c in rest)


def _ranked(candidate: Candidate) -> float:
    """The score with which a candidate was found, before the window was looked at."""
    scores = [note.score for note in candidate.notes if note.stage in _RANKING]
    return scores[-1] if scores else candidate.score
