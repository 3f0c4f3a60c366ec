"""Several: one query over more than one collection.

Each collection has an index of its own, and its best chunk scores 1. So scores are shares of a collection's best, and
rankings are merged by them. A grade needs the words of the collection that a chunk is from. What comes from no
collection that was asked (facts, graph paths, search results) goes with the first.
"""

from collections.abc import Mapping, Sequence

from headgate.notes import Fate, NoteCode, Stage
from headgate.protocols import Grader, Postings
from headgate.relevance.left_over import is_left_over
from headgate.relevance.query_terms import Ask, ask
from headgate.stages.grade import Calibrated
from headgate.types import Candidate, Sifted


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


def by_collection(
    candidates: Sequence[Candidate], names: Sequence[str]
) -> dict[str, Sequence[Candidate]]:
    """The candidates of each collection."""
    if len(names) == 1:
        return {names[0]: candidates}
    parted: dict[str, list[Candidate]] = {name: [] for name in names}
    for candidate in candidates:
        parted.get(candidate.chunk.collection, parted[names[0]]).append(candidate)
    return dict(parted)


def drop_left_over(
    query: str,
    fitting: Sequence[Candidate],
    seen: Sequence[Candidate],
    views: Mapping[str, Postings],
    ask: Ask = ask,
) -> Sifted:
    """Drop all that fits where every collection's relevant chunks are among those `seen` in the window."""
    names = tuple(views)
    ours, theirs = by_collection(fitting, names), by_collection(seen, names)
    if not all(
        is_left_over(ask(query, view), ours[name], theirs[name], view.language)
        for name, view in views.items()
    ):
        return Sifted(kept=tuple(fitting))
    note = (Stage.GRADE, Fate.DROP, NoteCode.LEFT_OVER)
    return Sifted(dropped=tuple(c.with_note(*note) for c in fitting))


def calibrated_grader(
    views: Mapping[str, Postings],
    found: Sequence[Candidate],
    seen: Sequence[Candidate],
    *,
    embedded: bool,
    ask: Ask = ask,
) -> Grader:
    """The built-in grader: each collection's candidates in the words of that collection.

    `found` is the ranking that candidates were taken from, `seen` what the window holds already.
    """
    names = tuple(views)
    ranked, known = by_collection(found, names), by_collection(seen, names)
    graders = {
        name: Calibrated(view, ranked[name], seen=known[name], embedded=embedded, ask=ask)
        for name, view in views.items()
    }
    first, *others = graders.values()
    return GraderByCollection(graders) if others else first


class GraderByCollection:
    """Gives each candidate to the grader of its collection."""

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
