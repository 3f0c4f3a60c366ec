"""Seeds: where propagation starts: the best chunks, and the names, words and terms of the query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np

from millgate.protocols import Postings, Snapshot
from millgate.rank.lexical import Floats, Ints, Keys, distinct, idf
from millgate.rank.name_postings import select_rare
from millgate.rank.top import RankingScores, scores_of
from millgate.text.names import names, spelled_words
from millgate.text.terms import number, terms, words
from millgate.types import Chunk, Sifted

# Bounds on the words that are looked up in the graph, so that a request over a large one stays within milliseconds.
WORD_SEEDS = 3  # best seeds whose words are looked up ...
SEED_WORDS = 100  # ... and how many words of each


@dataclass(frozen=True, slots=True)
class PropagationSeeds:
    """Where signals start: the best chunks, and the query's names, words and terms."""

    ords: Ints
    strength: Floats
    scores: RankingScores
    query_names: tuple[str, ...]  # the names and words of the query
    query_keys: Keys  # the same as keys
    hits: Postings  # of the query's terms
    term_weight: Floats  # the idf of each, 0 for a term that no chunk holds
    chunks: tuple[Chunk | None, ...] = ()  # the seeds' own, None for one that was not handed on
    written_names: tuple[tuple[str, ...], ...] = ()
    """For each seed, the names of the graph that its text writes without capitals."""


def find_seeds(found: Sifted, query: str, view: Snapshot, most: int) -> PropagationSeeds | None:
    """Where signals start for what was found, from `most` of the best chunks at most; None if none do."""
    if not found.kept:
        return None
    scores = scores_of(found, view)
    handed = dict(zip(scores.kept.tolist(), found.kept, strict=True))
    first = scores.seeds[:most]
    came = [handed.get(ord) for ord in first.tolist()]
    hits = scores.hits
    if hits is None:
        hits = view.postings(distinct(np.array(terms(query, view.language), np.uint64)))
    query_names = tuple(dict.fromkeys((*sorted(names(query)), *words(query))))
    return PropagationSeeds(
        ords=first,
        strength=scores.strength[:most],
        scores=scores,
        query_names=query_names,
        query_keys=distinct(np.array([number(name) for name in query_names], np.uint64)),
        hits=hits,
        term_weight=idf(view.count, hits.counts) * (hits.counts > 0),
        chunks=tuple(candidate.chunk if candidate else None for candidate in came),
    )


def seed_words(seeds: PropagationSeeds) -> list[list[str]]:
    """For each seed, the words of its text, and pairs of them: a text may write a name of the graph in any case.

    Only the best seeds have any: a name leads on from those most strongly.
    """
    return [
        _words_and_pairs(chunk.text) if chunk and place < WORD_SEEDS else []
        for place, chunk in enumerate(seeds.chunks)
    ]


def with_written_names(
    seeds: PropagationSeeds,
    words: Sequence[Sequence[str]],
    nodes: Sequence[str],
    view: Snapshot,
    *,
    limit: int,
) -> PropagationSeeds:
    """The seeds with those nodes of the graph that are among their words; a word in more than `limit` chunks is no
    name.
    """
    rare = set(select_rare(view, nodes, limit=limit))
    written = tuple(tuple(dict.fromkeys(w for w in own if w in rare)) for own in words)
    return replace(seeds, written_names=written)


def _words_and_pairs(text: str) -> list[str]:
    """The words of a text, and each with the one after it, up to a bound, as names are compared."""
    found = list(islice(spelled_words(text), SEED_WORDS))
    return [*found, *map(" ".join, pairwise(found))]
