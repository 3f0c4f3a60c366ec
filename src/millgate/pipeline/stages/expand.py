"""Expand: ask once more, in other words, when the window already holds most of what was found.

Done when fewer than min(min_novel, k) candidates are new, or all of the first k mostly repeat the window.
The second pass asks 2 to 4 queries that depend on nothing but their input: the question; with the strongest
adjacent entity or project; with a dependency or conflict; as bare keywords. Terms that fill the window already
are left out. What it brings passes penalize, loses what overlaps too much, and joins the first pass at .8 of its score.
"""

from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Annotated

from pydantic import Field

from millgate.published.self_reference import (
    MIN_NOVEL,
    SIGNALS,
    TIES,
    TRIGGER_OVERLAP,
    build_adjacent_queries,
    is_mostly_known,
)
from millgate.ranking.model import ranking_score
from millgate.text.coverage import copies
from millgate.text.hashes import Tokens
from millgate.text.words import tokens
from millgate.types import SIDE_SOURCES, Candidate, Edge, Sifted, Window
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Count, Policy, PositiveCount, Tuning, Unit

# Ends of edges that are looked for in texts: as many names as propagate follows.
_MOST_ENDS = 32


class ExpandPolicy(Policy):
    """When and how to ask a second time."""

    enabled: bool = True
    """Off: what was found first is all there is."""
    trigger_overlap: Unit = TRIGGER_OVERLAP
    """Overlap from which a chunk mostly repeats the window; what a second pass brings must stay below."""
    min_novel: PositiveCount = MIN_NOVEL
    """Fewer new candidates than this (or than k) ask for more."""
    k: Tuning[PositiveCount] = 5
    """How many first candidates are looked at when the request names no k."""
    queries: Tuning[Annotated[int, Field(ge=2, le=4)]] = 4
    """Most queries of a second pass."""
    weight: Tuning[Unit] = 0.8
    """What the scores of a second pass count beside those of the first."""
    adjacent: Tuning[Count] = 2
    """How many new chunks that a given edge leads to have a place of their own, whatever the window holds."""
    dominant: Tuning[Unit] = 0.01
    """A term that makes up this share of the window's words (and occurs 3 times) leads nowhere new."""


def wants_more(
    fresh: Sifted, window: Window, policy: ExpandPolicy, *, k: int | None = None
) -> bool:
    """Whether too little is new: read from the notes that `penalize` left."""
    if not policy.enabled or not window:
        return False
    first = policy.k if k is None else max(1, k)
    overlaps = [
        (ranking_score(c), overlap)
        for c in (*fresh.kept, *fresh.dropped)
        if (overlap := c.number(Stage.PENALIZE, "overlap")) is not None
    ]
    if not overlaps and fresh.kept:
        return False  # penalize did not run: nothing is known about overlap
    codes = [note.code for c in (*fresh.kept, *fresh.dropped) for note in c.notes]
    return is_mostly_known(
        codes.count(NoteCode.NEW),
        [overlap for _, overlap in nlargest(first, overlaps)],
        first,
        min_novel=policy.min_novel,
        trigger_overlap=policy.trigger_overlap,
    )


def variants(
    query: str,
    policy: ExpandPolicy,
    *,
    edges: Sequence[Edge] = (),
    project: str = "",
    window: Window,
) -> tuple[str, ...]:
    """Two to four queries, the question first; equal input gives equal queries. `project` is what is worked on.

    Of edges the ends of high-signal predicates come first, then those of the strongest. An end leads on if it has a
    word that is neither in the question nor makes up a large part of the window.
    """
    ends = [
        (e.predicate, end) for e in sorted(edges, key=_rank_edge) for end in (e.target, e.source)
    ]
    ends.append(("", project))
    words = {end: frozenset(tokens(end)) for _, end in ends}
    stale = set(tokens(query))
    if names := frozenset[str]().union(*words.values()):
        seen = Tokens.of(window.texts).values
        least = max(3, policy.dominant * seen.size)
        stale |= {n for n in names if (seen == Tokens.of([n]).values[:1]).sum() >= least}
    fresh = [(predicate, end) for predicate, end in ends if not words[end] <= stale]
    ties = list(dict.fromkeys(end for predicate, end in fresh if predicate in TIES))
    others = list(dict.fromkeys(end for predicate, end in fresh if predicate not in TIES))
    return build_adjacent_queries(query, others, ties, policy.queries)


def fuse(first: Sequence[Candidate], more: Sifted, policy: ExpandPolicy) -> Sifted:
    """The first pass with what the second adds, best first.

    `more` has passed penalize. What overlaps the window too much is dropped, and what repeats the first pass.
    """
    came = list(first)
    for candidate in more.kept:
        fate, code, score = Fate.KEEP, NoteCode.FOUND_AGAIN, candidate.score * policy.weight
        if (candidate.number(Stage.PENALIZE, "overlap") or 0.0) >= policy.trigger_overlap:
            fate, code, score = Fate.DROP, NoteCode.FOUND_AGAIN_IN_WINDOW, candidate.score
        came.append(candidate.with_note(Stage.EXPAND, fate, code, score=score))
    order = sorted(range(len(came)), key=lambda i: -came[i].score)
    seen = copies(Tokens.of([c.chunk.text for c in came]), range(len(came)))
    for late, early in seen.items():
        if late >= len(first) and not came[late].dropped:
            repeated = came[early].chunk.id
            came[late] = came[late].with_note(
                Stage.EXPAND, Fate.DROP, NoteCode.REPEATS, subject=repeated
            )
    judged = Sifted.split(came[i] for i in order)
    added = (*came[len(first) :], *more.dropped)
    return Sifted(judged.kept, judged.dropped + more.dropped, added)


def find_adjacent(
    fresh: Sequence[Candidate],
    shown: Sequence[Candidate],
    query: str,
    policy: ExpandPolicy,
    *,
    edges: Iterable[Edge],
    limit: int,
) -> list[str]:
    """The ids of fresh chunks that one given edge joins to the question or to what the window has `shown`: at most
    `policy.adjacent`, those of high-signal predicates and of the strongest edges first.

    An edge ends at chunks and documents by their ids, and at the texts that write its name; a name that more than
    `limit` texts write is none.
    """
    here = _Written([query, *(c.chunk.text for c in shown)], shown)
    ends = {
        there: None
        for edge in sorted(edges, key=_rank_edge)
        for end, there in ((edge.source, edge.target), (edge.target, edge.source))
        if end in here and there not in here
    }
    written = {
        c.chunk.id: _Written([f"{c.chunk.title} {c.chunk.text}"], [c])
        for c in fresh
        if c.chunk.source not in SIDE_SOURCES
        and (c.number(Stage.PENALIZE, "overlap") or 0.0) < policy.trigger_overlap
    }
    found: dict[str, None] = {}
    for end in islice(ends, _MOST_ENDS):
        led = [id for id, own in written.items() if end in own]
        if len(led) <= limit:
            found |= dict.fromkeys(led)
    return list(found)[: policy.adjacent]


class _Written:
    """What some texts name, and the ids of candidates, which are names too."""

    def __init__(self, texts: Iterable[str], candidates: Iterable[Candidate]) -> None:
        self._words = "\n".join(f" {' '.join(tokens(text))} " for text in texts)
        self._ids = {id for c in candidates for id in (c.chunk.id, c.chunk.document) if id}

    def __contains__(self, end: str) -> bool:
        words = " ".join(tokens(end))
        return end in self._ids or (bool(words) and f" {words} " in self._words)


def _rank_edge(edge: Edge) -> tuple[bool, float, str, str]:
    """High-signal predicates go first, then the strongest edges."""
    return edge.predicate not in SIGNALS, -edge.weight, edge.source, edge.target
