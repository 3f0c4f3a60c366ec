"""Expand: ask once more, in other words, when the window already holds most of what was found.

Done when fewer than min(min_novel, k) candidates are new, or all of the first k mostly repeat the window.
The second pass asks 2 to 4 queries that depend on nothing but their input: the question; with the strongest
adjacent entity or project; with a dependency or conflict; as bare keywords. Terms that fill the window already
are left out. What it brings passes penalize, loses what overlaps too much, and joins the first pass at .8 of its score.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
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
    expansion_depth,
    is_mostly_known,
)
from millgate.text.coverage import copies
from millgate.text.hashes import Tokens
from millgate.text.words import tokens
from millgate.types import SIDE_SOURCES, Candidate, Edge, Sifted, Window
from millgate.types.notes import Fate, Note, NoteCode, Stage
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
    fresh: Sifted,
    window: Window,
    policy: ExpandPolicy,
    *,
    k: int | None = None,
) -> bool:
    """Whether too little is new: read from the notes that `penalize` left."""
    if not policy.enabled or not window:
        return False
    first = policy.k if k is None else max(1, k)
    compared = list(_overlap_notes(fresh))
    if not compared and fresh.kept:
        return False  # penalize did not run: nothing is known about overlap
    novel = sum(note.code is NoteCode.NEW for _, note in compared)
    best = nlargest(first, ((before, note.numbers["overlap"]) for before, note in compared))
    return is_mostly_known(
        novel,
        [overlap for _, overlap in best],
        first,
        min_novel=policy.min_novel,
        trigger_overlap=policy.trigger_overlap,
    )


def depth(k: int | None, policy: ExpandPolicy) -> int:
    """How many candidates a second pass fetches for each query: max(3k, 12)."""
    return expansion_depth(policy.k if k is None else k)


def variants(
    query: str,
    policy: ExpandPolicy,
    *,
    edges: Sequence[Edge] = (),
    project: str = "",
    window: Window,
) -> tuple[str, ...]:
    """Two to four queries, the question first; equal input gives equal queries. `project` is what is worked on."""
    ends = [end for edge in edges for end in (edge.source, edge.target)]
    stale = _dominant_words([*ends, project], window, policy)
    ties = _adjacent(query, (e for e in edges if e.predicate in TIES), stale)
    others = _adjacent(query, (e for e in edges if e.predicate not in TIES), stale)
    projects = [project] if _fresh(project, query, stale) else []
    return build_adjacent_queries(query, others or projects, ties, policy.queries)


def merge_passes(passes: Iterable[Sequence[Candidate]], known: Collection[str]) -> list[Candidate]:
    """What a second pass brought that the first had not: each once, with its best score, best first."""
    best: dict[str, Candidate] = {}
    for found in passes:
        for candidate in found:
            id = candidate.chunk.id
            if id not in known and (id not in best or candidate.score > best[id].score):
                best[id] = candidate
    return sorted(best.values(), key=lambda c: -c.score)


def fuse(first: Sequence[Candidate], more: Sifted, policy: ExpandPolicy) -> Sifted:
    """The first pass with what the second adds, best first.

    `more` has passed penalize. What overlaps the window too much is dropped, and what repeats the first pass.
    """
    came = [*first, *(_judge(c, policy) for c in more.kept)]
    order = sorted(range(len(came)), key=lambda i: -came[i].score)
    seen = copies(Tokens.of([c.chunk.text for c in came]), range(len(came)))
    for late, early in seen.items():
        if late >= len(first) and not came[late].dropped:
            repeated = came[early].chunk.id
            came[late] = came[late].with_note(
                Stage.EXPAND, Fate.DROP, NoteCode.REPEATS, subject=repeated
            )
    judged = Sifted.split(came[i] for i in order)
    added = tuple(c for i, c in enumerate(came) if i >= len(first)) + more.dropped
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
    ordered = sorted(edges, key=_rank_edge)
    here = _Written([query, *(c.chunk.text for c in shown)], _ids(shown))
    ends = {
        there: None
        for edge in ordered
        for end, there in ((edge.source, edge.target), (edge.target, edge.source))
        if end in here and there not in here
    }
    new = [c for c in fresh if c.chunk.source not in SIDE_SOURCES and _is_new(c, policy)]
    written = [_Written([f"{c.chunk.title} {c.chunk.text}"], _ids([c])) for c in new]
    found: dict[str, None] = {}
    for end in islice(ends, _MOST_ENDS):
        led = [c.chunk.id for c, own in zip(new, written, strict=True) if end in own]
        if len(led) <= limit:
            found |= dict.fromkeys(led)
    return list(found)[: policy.adjacent]


class _Written:
    """What some texts name, and ids that are names too."""

    def __init__(self, texts: Iterable[str], ids: Collection[str]) -> None:
        self._words = "\n".join(f" {' '.join(tokens(text))} " for text in texts)
        self._ids = ids

    def __contains__(self, end: str) -> bool:
        words = " ".join(tokens(end))
        return end in self._ids or (bool(words) and f" {words} " in self._words)


def _ids(candidates: Iterable[Candidate]) -> set[str]:
    return {id for c in candidates for id in (c.chunk.id, c.chunk.document) if id}


def _is_new(candidate: Candidate, policy: ExpandPolicy) -> bool:
    return (candidate.number(Stage.PENALIZE, "overlap") or 0.0) < policy.trigger_overlap


def _rank_edge(edge: Edge) -> tuple[bool, float, str, str]:
    """High-signal predicates go first, then the strongest edges."""
    return edge.predicate not in SIGNALS, -edge.weight, edge.source, edge.target


def _judge(candidate: Candidate, policy: ExpandPolicy) -> Candidate:
    overlap = candidate.number(Stage.PENALIZE, "overlap")
    if overlap is not None and overlap >= policy.trigger_overlap:
        return candidate.with_note(Stage.EXPAND, Fate.DROP, NoteCode.FOUND_AGAIN_IN_WINDOW)
    score = candidate.score * policy.weight
    return candidate.with_note(Stage.EXPAND, Fate.KEEP, NoteCode.FOUND_AGAIN, score=score)


def _overlap_notes(fresh: Sifted) -> Iterator[tuple[float, Note]]:
    """For each candidate, the score it had before penalize, and the note on its overlap."""
    for candidate in (*fresh.kept, *fresh.dropped):
        before = candidate.score
        for note in candidate.notes:
            if note.stage is Stage.PENALIZE and "overlap" in note.numbers:
                yield before, note
                break
            before = note.score


def _adjacent(query: str, edges: Iterable[Edge], stale: Collection[str]) -> list[str]:
    """The ends of edges: first those of high-signal predicates, then those of the strongest edges."""
    ends = (end for edge in sorted(edges, key=_rank_edge) for end in (edge.target, edge.source))
    return list(dict.fromkeys(end for end in ends if _fresh(end, query, stale)))


def _fresh(term: str, query: str, stale: Collection[str]) -> bool:
    """Whether the term has a word that is neither in the question nor dominant in the window."""
    asked = set(tokens(query))
    words = tokens(term)
    return bool(words) and not all(word in asked or word in stale for word in words)


def _dominant_words(names: Iterable[str], window: Window, policy: ExpandPolicy) -> frozenset[str]:
    """The words of some names that make up a large part of the window: to ask for them again leads nowhere new."""
    words = {word for name in names for word in tokens(name)}
    if not words:
        return frozenset()
    seen = Tokens.of(window.texts).values
    least = max(3, policy.dominant * seen.size)
    counts = {word: int((seen == Tokens.of([word]).values[:1]).sum()) for word in words}
    return frozenset(word for word, count in counts.items() if count >= least)
