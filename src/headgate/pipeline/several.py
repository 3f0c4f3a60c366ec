"""Several: one query over more than one collection.

Each collection has an index of its own, and its best chunk scores 1. So scores are shares of a collection's best, and
rankings are merged by them. A grade needs the words of the collection that a chunk is from. What comes from no
collection that was asked (facts, graph paths, search results) goes with the first.
"""

from collections.abc import Mapping, Sequence

from headgate.notes import Fate, NoteCode, Stage
from headgate.protocols import Snapshot
from headgate.relevance.left_over import is_left_over
from headgate.relevance.query_terms import Question
from headgate.stages.grade import calibrated_confidences
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
) -> dict[str, list[Candidate]]:
    """The candidates of each collection."""
    parted: dict[str, list[Candidate]] = {name: [] for name in names}
    for candidate in candidates:
        parted[collection_of(candidate, names)].append(candidate)
    return parted


def collection_of(candidate: Candidate, names: Sequence[str]) -> str:
    """Which of the collections that were asked a candidate goes with."""
    own = candidate.chunk.collection
    return own if own in names else names[0]


def drop_left_over(
    questions: Mapping[str, Question],
    fitting: Sequence[Candidate],
    seen: Sequence[Candidate],
    views: Mapping[str, Snapshot],
) -> Sifted:
    """Drop all that fits if every collection's relevant chunks are among those `seen` in the window."""
    names = tuple(views)
    ours, theirs = by_collection(fitting, names), by_collection(seen, names)
    if not all(
        is_left_over(questions[name], ours[name], theirs[name], view.language)
        for name, view in views.items()
    ):
        return Sifted(kept=tuple(fitting))
    note = (Stage.GRADE, Fate.DROP, NoteCode.LEFT_OVER)
    return Sifted(dropped=tuple(c.with_note(*note) for c in fitting))


def confidences_by_collection(
    questions: Mapping[str, Question],
    candidates: Sequence[Candidate],
    views: Mapping[str, Snapshot],
    *,
    found: Sequence[Candidate],
    seen: Sequence[Candidate],
    embedded: bool,
) -> list[float]:
    """The built-in grader's confidence in each candidate, in the words of the collection that it is from.

    `found` is the ranking that candidates were taken from, `seen` what the window holds already.
    """
    names = tuple(views)
    members, ranked, known = (by_collection(some, names) for some in (candidates, found, seen))
    marks = {
        name: iter(
            calibrated_confidences(
                questions[name],
                own,
                views[name],
                found=ranked[name],
                seen=known[name],
                embedded=embedded,
            )
        )
        for name, own in members.items()
        if own
    }
    return [next(marks[collection_of(candidate, names)]) for candidate in candidates]
