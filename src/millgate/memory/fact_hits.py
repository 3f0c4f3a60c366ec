"""Fact hits: facts that fit a query, ranked, judged, and as candidates of the pipeline."""

from collections.abc import Iterable
from dataclasses import dataclass

from millgate.notes import Fate, NoteCode, Stage
from millgate.types import Candidate, Chunk, Fact, Sifted


@dataclass(frozen=True, slots=True)
class FactHit:
    """A fact that fits a query: its relevance, and its score with trust and age."""

    fact: Fact
    relevance: float
    score: float


def rank_key(hit: FactHit) -> tuple[float, str]:
    """Best first; ties by content, since ids depend on when a fact was added."""
    return -hit.score, hit.fact.content


def sift_hits(
    hits: Iterable[FactHit], *, min_trust: float, min_relevance: float, limit: int
) -> Sifted:
    """The facts as candidates, best first; dropped if not trusted or relevant enough, or beyond the limit."""
    judged: list[Candidate] = []
    kept = 0
    for hit in hits:
        candidate = _judge(hit, min_trust, min_relevance)
        if not candidate.dropped and kept >= limit:
            candidate = candidate.with_note(
                Stage.MEMORY, Fate.DROP, NoteCode.BEYOND_LIMIT, limit=limit
            )
        kept += not candidate.dropped
        judged.append(candidate)
    return Sifted.split(judged, added=judged)


def _judge(hit: FactHit, min_trust: float, min_relevance: float) -> Candidate:
    candidate, trust, relevance = _as_candidate(hit), hit.fact.trust, hit.relevance
    if trust < min_trust:
        return candidate.with_note(
            Stage.MEMORY, Fate.DROP, NoteCode.LOW_TRUST, trust=trust, min_trust=min_trust
        )
    if relevance < min_relevance:
        return candidate.with_note(
            Stage.MEMORY,
            Fate.DROP,
            NoteCode.LOW_RELEVANCE,
            relevance=relevance,
            min_relevance=min_relevance,
        )
    return candidate


def _as_candidate(hit: FactHit) -> Candidate:
    fact = hit.fact
    chunk = Chunk(
        id=fact.id,
        text=fact.content,
        document="facts",
        source="memory",
        metadata={"category": fact.category, "tags": fact.tags, "trust": fact.trust},
    )
    return Candidate(chunk, hit.score).with_note(
        Stage.MEMORY, Fate.ADD, NoteCode.FACT, relevance=hit.relevance, trust=fact.trust
    )
