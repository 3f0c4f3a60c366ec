"""Question: a query in the light of a collection, and what a chunk holds of it.

Each term is worth its rarity in the collection, log(1 + (N - df + .5) / (df + .5)); a term that the collection has
never seen is worth the most.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from headgate.notes import Stage
from headgate.text.languages import choose
from headgate.text.names import capitalized
from headgate.text.terms import terms
from headgate.types import Candidate, Chunk

if TYPE_CHECKING:
    import numpy.typing as npt


class Vocabulary(Protocol):
    """What a collection knows of words: how many chunks there are, and how many hold a term."""

    @property
    def count(self) -> int:
        """How many chunks there are."""
        ...

    @property
    def conversational(self) -> bool:
        """Whether the chunks are lines of a conversation."""
        ...

    @property
    def language(self) -> str:
        """The language whose stems its terms are."""
        ...

    def frequencies(self, terms: "npt.NDArray[np.uint64]") -> "npt.NDArray[np.int64]":
        """How many chunks hold each term."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A query in the light of a collection: its terms, what each is worth, which are names, which are neighbors."""

    worth: dict[int, float]  # term -> rarity in the collection, the highest for one never seen
    asked: frozenset[int]  # the terms alone
    unseen: frozenset[int]
    names: frozenset[int]
    pairs: dict[tuple[int, int], float]
    shares: dict[int, float]  # name -> share of the chunks that hold it
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
    """What one candidate holds of a question."""

    held: frozenset[int]
    mass: float
    phrase: float
    titled: float
    lexical: float  # the share of the query's lexical weight that retrieval found in it


def ask(query: str, words: Vocabulary) -> Question:
    """The query's terms with their worth in this collection."""
    language = choose(query, words.language)
    asked = terms(query, language)
    keys = list(dict.fromkeys(asked))
    seen = dict(zip(keys, _frequencies(keys, words), strict=True))
    n = words.count
    worth = {key: _rarity(n, df) for key, df in seen.items()}
    named = {t for word in capitalized(query) for t in terms(word, language)}
    names = frozenset(named & worth.keys())
    return Question(
        worth=worth,
        asked=frozenset(keys),
        unseen=frozenset(key for key in keys if not seen[key]),
        names=names,
        pairs={(a, b): worth[a] + worth[b] for a, b in pairwise(asked) if a != b},
        shares={key: seen[key] / max(n, 1) for key in names},
        full=_rarity(n, 0),
    )


def holds(question: Question, chunk: Chunk, language: str) -> frozenset[int]:
    """The terms of the question that stand in a chunk's title or text."""
    return question.asked & bag(chunk, language)


def match(question: Question, candidate: Candidate, language: str) -> Match:
    """What a candidate's title and text hold of the question."""
    chunk = candidate.chunk
    held = holds(question, chunk, language)
    mass = question.sum(held)
    both = {pair for pair in question.pairs if held.issuperset(pair)}
    near = both and both & {
        *pairwise(_read(chunk.text, language)),
        *pairwise(_head(chunk, language)),
    }
    titled = _bag(chunk.title, language) if chunk.title else frozenset()
    found = candidate.number(Stage.RETRIEVE, "share")
    return Match(
        held,
        mass,
        phrase=sum(question.pairs[pair] for pair in near or ()),
        titled=question.sum(titled) if titled and held.issuperset(titled) else 0.0,
        # what retrieval never saw: a term that stands once weighs about half of its most
        lexical=0.5 * mass / question.total if found is None else found,
    )


def bag(chunk: Chunk, language: str) -> frozenset[int]:
    """The terms of a chunk's title and text, each once."""
    text = _bag(chunk.text, language)
    return text | _bag(chunk.title, language) if chunk.title else text


def rarities(keys: list[int], words: Vocabulary) -> dict[int, float]:
    """What each of some terms is worth in the collection."""
    n, seen = words.count, words.frequencies(np.array(keys, np.uint64))
    found = np.log1p((np.maximum(n - seen, 0) + 0.5) / (seen + 0.5))
    return dict(zip(keys, found.tolist(), strict=True))


def _frequencies(keys: list[int], words: Vocabulary) -> list[int]:
    return words.frequencies(np.array(keys, np.uint64)).tolist() if keys else []


def _rarity(n: int, df: int) -> float:
    return math.log1p((max(n, df) - df + 0.5) / (df + 0.5))


def _head(chunk: Chunk, language: str) -> tuple[int, ...]:
    return _read(chunk.title, language) if chunk.title else ()


@lru_cache(maxsize=10_000)
def _read(text: str, language: str) -> tuple[int, ...]:
    """The terms of a text in reading order, remembered, since chunks come back request after request."""
    return tuple(terms(text, language))


@lru_cache(maxsize=10_000)
def _bag(text: str, language: str) -> frozenset[int]:
    return frozenset(_read(text, language))
