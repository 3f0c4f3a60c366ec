"""Fact hits: which of the facts that fit a query are kept, and why the others are not."""

from millgate.memory.fact_hits import FactHit, rank_key, sift_hits
from millgate.notes import NoteCode
from millgate.types import Fact


def hit(content, *, trust=0.5, relevance=0.8):
    return FactHit(Fact(content, content, trust=trust), relevance, relevance * trust)


def sift(*hits, min_trust=0.3, min_relevance=0.1, limit=5):
    return sift_hits(hits, min_trust=min_trust, min_relevance=min_relevance, limit=limit)


def test_a_trusted_and_relevant_fact_is_kept_as_a_chunk_of_memory():
    sifted = sift(hit("Heron", trust=0.3, relevance=0.1))
    (kept,) = sifted.kept
    assert (kept.chunk.source, kept.chunk.document, kept.chunk.text) == ("memory", "facts", "Heron")
    assert sifted.added == sifted.kept


def test_each_dropped_fact_says_why():
    sifted = sift(
        hit("a"), hit("distrusted", trust=0.29), hit("beside", relevance=0.09), hit("b"), limit=1
    )
    assert [c.chunk.id for c in sifted.kept] == ["a"]
    assert {c.chunk.id: c.notes[-1].code for c in sifted.dropped} == {
        "distrusted": NoteCode.LOW_TRUST,
        "beside": NoteCode.LOW_RELEVANCE,
        "b": NoteCode.BEYOND_LIMIT,
    }
    assert len(sifted.added) == 4


def test_a_dropped_fact_takes_no_place_of_the_limit():
    sifted = sift(hit("distrusted", trust=0.0), hit("a"), limit=1)
    assert [c.chunk.id for c in sifted.kept] == ["a"]


def test_the_best_score_ranks_first_and_content_breaks_ties():
    hits = [hit("b"), hit("a"), hit("c", relevance=0.9)]
    assert [h.fact.id for h in sorted(hits, key=rank_key)] == ["c", "a", "b"]
