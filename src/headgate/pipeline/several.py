"""Several: one query over more than one collection.

Each collection has an index of its own, and its best chunk scores 1. So scores are shares of a collection's best, and
rankings are merged by them. A grade needs the words of the collection that a chunk is from.
"""

from collections.abc import Mapping, Sequence

from headgate.stages.grade import Calibrated
from headgate.types import Candidate


def merge(rankings: Sequence[Sequence[Candidate]]) -> tuple[Candidate, ...]:
    """One ranking of several, best first; on a tie the earlier collection leads.

    An id that two collections share stands once, where it scores best.
    """
    if len(rankings) == 1:
        return tuple(rankings[0])
    best: dict[str, Candidate] = {}
    for ranking in rankings:
        for candidate in ranking:
            held = best.get(candidate.chunk.id)
            if held is None or candidate.score > held.score:
                best[candidate.chunk.id] = candidate
    return tuple(sorted(best.values(), key=lambda c: -c.score))


class GraderByCollection:
    """Gives each candidate to the grader of its collection; what comes from elsewhere, to the first."""

    def __init__(self, graders: Mapping[str, Calibrated]) -> None:
        self._graders = graders
        self._first = next(iter(graders))
        self.bands = graders[self._first].bands

    async def grade(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        """A confidence in 0..1 for each candidate."""
        places: dict[str, list[int]] = {}
        for at, candidate in enumerate(candidates):
            name = candidate.chunk.collection
            places.setdefault(name if name in self._graders else self._first, []).append(at)
        grades = [0.0] * len(candidates)
        for name, own in places.items():
            marks = await self._graders[name].grade(query, [candidates[at] for at in own])
            for at, mark in zip(own, marks, strict=True):
                grades[at] = mark
        return grades
