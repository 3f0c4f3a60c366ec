"""Question: a query in the light of a collection, and what a chunk holds of it.

Each term is worth its rarity in the collection, log(1 + (N - df + .5) / (df + .5)); a term that the collection has
never seen is worth the most. A word that it has never seen is read as its known parts (compounds.py).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from headgate.rank.lexical import idf
from headgate.relevance.asking_words import asking_terms
from headgate.relevance.compounds import read_query
from headgate.relevance.vocabulary import Vocabulary
from headgate.text.cache import Recent
from headgate.text.terms import terms_of
from headgate.types import MEMORY, Chunk


@dataclass(frozen=True, slots=True)
class Question:
    """A query in the light of a collection: its terms, what each is worth, which are neighbors."""

    worth: dict[int, float]  # term -> rarity in the collection, the highest for one never seen
    asked: frozenset[int]  # the terms alone
    unseen: frozenset[int]
    pairs: dict[tuple[int, int], float]
    full: float  # the rarity of a term never seen

    def sum(self, held: Iterable[int]) -> float:
        """What some of its terms are worth together."""
        return sum(map(self.worth.__getitem__, held))

    @property
    def total(self) -> float:
        """The worth of all terms together."""
        return sum(self.worth.values()) or 1.0


@dataclass(frozen=True, slots=True)
class Match:
    """What one chunk holds of a question."""

    held: frozenset[int]
    mass: float
    phrase: float  # the worth of the query's neighboring terms that are neighbors in it too


def ask(query: str, words: Vocabulary) -> Question:
    """The query's terms with their worth here; of words that only ask, those it knows, unless no other is left."""
    read = list(chain.from_iterable(read_query(query, words)))
    found = list(dict.fromkeys(read))
    counts = dict(zip(found, _frequencies(found, words), strict=True))
    asking = asking_terms(query, words.language)
    seen = {key: df for key, df in counts.items() if df or key not in asking} or counts
    keys, asked = list(seen), [key for key in read if key in seen]
    n = words.count
    worth = {key: idf(n, df) for key, df in seen.items()}
    return Question(
        worth=worth,
        asked=frozenset(keys),
        unseen=frozenset(key for key in keys if not seen[key]),
        pairs={(a, b): worth[a] + worth[b] for a, b in pairwise(asked) if a != b},
        full=idf(n, 0),
    )


def holds(question: Question, chunk: Chunk, language: str) -> frozenset[int]:
    """The terms of the question that stand in a chunk's title or text."""
    return question.asked & bag(chunk, language)


def match(question: Question, chunk: Chunk, language: str) -> Match:
    """What a chunk's title and text hold of the question."""
    held = holds(question, chunk, language)
    both = {pair for pair in question.pairs if held.issuperset(pair)}
    near = both and both & {
        pair for order, _ in _read(_shown_texts(chunk), language) for pair in pairwise(order)
    }
    phrase = sum(question.pairs[pair] for pair in near or ())
    return Match(held, question.sum(held), phrase)


def bag(chunk: Chunk, language: str) -> frozenset[int]:
    """The terms of a chunk's title and text, each once, and of the tags that a remembered fact is found by."""
    return frozenset().union(*(own for _, own in _read(_texts(chunk), language)))


def read_ahead(chunks: Iterable[Chunk], language: str) -> None:
    """Read the texts of chunks together, which is faster, so that they are at hand when each is asked for."""
    _read([text for chunk in chunks for text in _texts(chunk)], language)


def _shown_texts(chunk: Chunk) -> list[str]:
    return [chunk.text, chunk.title] if chunk.title else [chunk.text]


def _texts(chunk: Chunk) -> list[str]:
    tags = chunk.metadata.get("tags") if chunk.source == MEMORY else None
    return [*_shown_texts(chunk), " ".join(tags)] if tags else _shown_texts(chunk)


def _frequencies(keys: list[int], words: Vocabulary) -> list[int]:
    return words.frequencies(np.array(keys, np.uint64)).tolist() if keys else []


_REMEMBERED: Recent[tuple[str, str], tuple[tuple[int, ...], frozenset[int]]] = Recent(
    2_048, math.inf, lambda: 0.0, size=2_048, measure=lambda _: 1
)


def _read(texts: Sequence[str], language: str) -> list[tuple[tuple[int, ...], frozenset[int]]]:
    """The terms of each text in reading order, and each once; remembered, since chunks come back."""
    keys = [(text, language) for text in texts]
    known = dict(zip(keys, _REMEMBERED.find(keys), strict=True))
    new = [key for key, found in known.items() if found is None]
    read = terms_of([text for text, _ in new], language)
    fresh = {key: (own, frozenset(own)) for key, own in zip(new, read, strict=True)}
    _REMEMBERED.keep(fresh)
    return [known[key] or fresh[key] for key in keys]
