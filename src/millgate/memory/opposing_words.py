"""Opposing words: those by which one fact denies another, in the languages that facts are mostly written in.

They are in text/data/opposing_words.json. Words of all languages are together: a fact is too short to be sure of its
language, and what is "no" in one is seldom anything else in another. If a language denies by several words at once
(ne ... pas), any of them tells.
"""

from collections import defaultdict

from millgate.text.data import load
from millgate.text.letters import fold

_DATA = load("opposing_words.json")


def _words(name: str) -> list[str]:
    return [fold(word) for line in _DATA[name] for word in line.split()]


NEGATIONS = frozenset(_words("negations"))
"""Words that deny."""

NEGATING_SIGNS: tuple[str, ...] = tuple(_DATA["negating_signs"])
"""What denies in scripts without spaces, whose words are pairs of signs."""

OPPOSITES: defaultdict[str, set[str]] = defaultdict(set)
"""A word -> those of opposite meaning. Han words have two signs, so that they are pairs of signs."""
for _pair in _words("opposites"):
    _one, _other = _pair.split("/")
    OPPOSITES[_one].add(_other)
    OPPOSITES[_other].add(_one)

SINGLE_VALUED = frozenset(_words("single_valued"))
"""After these a fact has one answer: two different ones oppose each other."""
