"""Question: a query in the light of a collection, and what a chunk holds of it.

Each term is worth its rarity in the collection, log(1 + (N - df + .5) / (df + .5)); a term that the collection has
never seen is worth the most. A word that it has never seen is read as its known parts (query_rewrite.py).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise

import numpy as np

from headgate.protocols import Snapshot
from headgate.rank.lexical import idf
from headgate.relevance.asking_words import asking_terms
from headgate.relevance.query_rewrite import read_query
from headgate.text.languages import choose
from headgate.text.terms import terms_of
from headgate.types import MEMORY, Chunk

_Read = tuple[tuple[int, ...], frozenset[int]]
"""The terms of a text in reading order, and each once."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query in the light of a collection: its terms, what each is worth, which are neighbors."""

    worth: dict[int, float]  # term -> rarity in the collection, the highest for one never seen
    asked: frozenset[int]  # the terms alone
    unseen: frozenset[int]
    pairs: dict[tuple[int, int], float]
    full: float  # the rarity of a term never seen
    language: str  # that of the query, as far as the collection's allows

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


def ask(query: str, words: Snapshot, terms: Sequence[tuple[int, ...]] | None = None) -> Question:
    """The query's terms with their worth here; of words that only ask, those it knows, unless no other is left.

    `terms` are what `read_query` gives for the same query and collection, if the caller has read it already.
    """
    said = list(chain.from_iterable(read_query(query, words) if terms is None else terms))
    found = list(dict.fromkeys(said))
    held = words.frequencies(np.array(found, np.uint64))
    counts = dict(zip(found, held.tolist(), strict=True))
    asking = asking_terms(query, words.language)
    seen = {key: df for key, df in counts.items() if df or key not in asking} or counts
    keys, asked = list(seen), [key for key in said if key in seen]
    n = words.count
    worth = {key: idf(n, df) for key, df in seen.items()}
    return Question(
        worth=worth,
        asked=frozenset(keys),
        unseen=frozenset(key for key in keys if not seen[key]),
        pairs={(a, b): worth[a] + worth[b] for a, b in pairwise(asked) if a != b},
        full=idf(n, 0),
        language=choose(query, words.language),
    )


def match(question: Question, chunks: Sequence[Chunk], language: str) -> list[Match]:
    """What each chunk's title and text hold of the question, and the tags that a remembered fact is found by."""
    texts = [_texts(chunk) for chunk in chunks]
    read = iter(_read([text for own in texts for text in own], language))
    return [_match(question, [*islice(read, len(own))]) for own in texts]


def match_known(question: Question, chunks: Sequence[Chunk], words: Snapshot) -> list[Match]:
    """The same, by what the collection knows of its chunks; only others are read."""
    known = words.locate_terms(chunks, np.array([*question.asked], np.uint64))
    others = [chunk for chunk, spots in zip(chunks, known, strict=True) if spots is None]
    read = iter(match(question, others, words.language))
    return [next(read) if spots is None else _match_spots(question, spots) for spots in known]


def _match_spots(question: Question, spots: Mapping[int, int]) -> Match:
    near = {(term, spots.get(at + 1)) for at, term in spots.items()}
    return _weigh(question, question.asked.intersection(spots.values()), near)


def _match(question: Question, read: Sequence[_Read]) -> Match:
    held = question.asked.intersection(chain.from_iterable(own for _, own in read))
    both = {pair for pair in question.pairs if held.issuperset(pair)}
    near = both and both.intersection(chain.from_iterable(pairwise(order) for order, _ in read))
    return _weigh(question, held, near)


def _weigh(question: Question, held: frozenset[int], near: Collection[object]) -> Match:
    phrase = sum(worth for pair, worth in question.pairs.items() if pair in near)
    return Match(held, question.sum(held), phrase)


def _texts(chunk: Chunk) -> list[str]:
    shown = [chunk.text, chunk.title] if chunk.title else [chunk.text]
    tags = chunk.metadata.get("tags") if chunk.source == MEMORY else None
    return [*shown, " ".join(tags)] if tags else shown


def _read(texts: Sequence[str], language: str) -> list[_Read]:
    return [(own, frozenset(own)) for own in terms_of(texts, language)]
