"""Several: one query over more than one collection.

Each collection has an index of its own, and its best chunk scores 1. So scores are shares of a collection's best, and
rankings are merged by them. A grade needs the words of the collection that a chunk is from. What comes from no
collection that was asked (facts, graph paths, search results) goes with the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from millgate.protocols import Snapshot
from millgate.ranking.model import Chance, Model, chances
from millgate.ranking.question import Question
from millgate.types import SIDE_SOURCES, Candidate


def merge(rankings: Sequence[Sequence[Candidate]]) -> tuple[Candidate, ...]:
    """One ranking of several, best first; on a tie the earlier collection leads.

    A text that two collections have under one id stands once, where it scores best.
    """
    if len(rankings) == 1:
        return tuple(rankings[0])
    return tuple(sorted(join_by_id(rankings), key=lambda c: -c.score))


def join_by_id(rankings: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """The candidates of several collections in order, each under an id of its own.

    A candidate is known by its id. Of another text under an id that is taken, the id gets its collection before it, as
    that of a search result gets "web:".
    """
    found: dict[str, Candidate] = {}
    for ranking in rankings:
        for candidate in ranking:
            named = candidate
            while (held := found.get(named.chunk.id)) and held.chunk.text != named.chunk.text:
                chunk = named.chunk
                named = replace(named, chunk=replace(chunk, id=f"{chunk.collection}:{chunk.id}"))
            if held is None or named.score > held.score:
                found[named.chunk.id] = named
    return list(found.values())


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


def chances_by_collection(
    questions: Mapping[str, Question],
    candidates: Sequence[Candidate],
    views: Mapping[str, Snapshot],
    *,
    seen: Sequence[Candidate],
    embedded: bool,
    model: Model | None = None,
) -> list[Chance]:
    """How likely each candidate is evidence, in the words of the collection that it is from.

    `seen` is what the window holds already.
    """
    names = tuple(views)
    members, known = (by_collection(some, names) for some in (candidates, seen))
    made = {
        name: iter(
            chances(
                questions[name],
                own,
                views[name],
                seen=known[name],
                embedded=embedded,
                model=model,
            )
        )
        for name, own in members.items()
        if own
    }
    return [next(made[collection_of(candidate, names)]) for candidate in candidates]


def shares_of(candidates: Sequence[Candidate], found: Sequence[Chance]) -> list[float]:
    """The candidates' shares of the expected evidence; less in collections that are less likely to know.

    Graph paths and remembered facts have a section of their own and are not compared.
    """
    known = [
        0.0 if c.chunk.source in SIDE_SOURCES else one.known
        for c, one in zip(candidates, found, strict=True)
    ]
    most = max(known) or 1.0
    return [one.share * min(one.known / most, 1.0) for one in found]
