"""Cues: which lines of a conversation can answer a question at all, by their looks.

A line that ends with a question asks and seldom tells; a question that names one of the speakers is mostly
answered by that speaker; a question about time by a line that speaks of time. Each cue that a line misses
takes a share of its score. English words only; the question mark and the speaker work in every language.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from sys import getsizeof

from headgate.text.cache import Cache
from headgate.text.lazy_pattern import lazy_compile
from headgate.text.terms import terms
from headgate.text.turns import part

_WHEN = lazy_compile(
    r"^\W*when\b|\bhow long\b|\b(?:what|which) (?:year|month|day|date|time)\b", re.I
)
_TAIL = 400  # characters at the end of a line that are looked at for a question and a remark
_DAYS = "mon|tues|wednes|thurs|fri|satur|sun|to|yester"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_TIME = lazy_compile(
    rf"\b(?:(?:{_DAYS})day|{_MONTHS}|tonight|tomorrow|ago|last|next|recently|since"
    r"|week|weekend|month|years?|\d+)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class CueFactors:
    """What is left of a line's score when it asks, is another's than the one asked about, or tells no time."""

    question: float
    other_speaker: float
    undated: float


@dataclass(frozen=True, slots=True)
class _Looks:
    speaker: str
    asks: bool
    speaks_of_time: bool


# Hash of a line -> how it looks. A request to a collection of chats takes 7 % more CPU without it.
_LOOKS = Cache[int, _Looks](1_250_000, lambda _, looks: getsizeof(looks.speaker))  # 4 000 lines


def _looks(text: str) -> _Looks:
    """How a line looks, remembered by its hash, since lines come back request after request."""
    key = hash(text)
    looks = _LOOKS.get(key)
    if looks is None:
        line = part(text)
        asks = _asks(line.body[-_TAIL:])
        looks = _Looks(line.speaker, asks, _TIME.search(line.body) is not None)
        _LOOKS.put(key, looks)
    return looks


def _asks(tail: str) -> bool:
    """Whether a text ends with a question mark; a remark in brackets may follow it."""
    if _ends_with_mark(tail):
        return True
    body, bracket, remark = tail.rstrip().rpartition("[")
    return bool(bracket) and remark.find("]") == len(remark) - 1 and _ends_with_mark(body)


def _ends_with_mark(text: str) -> bool:
    for sign in reversed(text):
        if sign in "?？؟":
            return True
        if sign.isalnum() or sign == "_":
            return False
    return False


def speaks_of_time(text: str) -> bool:
    """Whether a line, given as it stands with date and speaker, speaks of time."""
    return _looks(text).speaks_of_time


def cues(query: str, texts: Sequence[str], language: str, by: CueFactors) -> list[float]:
    """What is left of the score of each line, given as it stands with date and speaker."""
    lines = [_looks(text) for text in texts]
    asked = {*terms(query, language)}
    named = {s for s in {k.speaker for k in lines} if not asked.isdisjoint(terms(s, language))}
    when = "english" in language and _WHEN.search(query) is not None
    return [
        (by.question if line.asks else 1.0)
        * (by.other_speaker if len(named) == 1 and line.speaker not in named else 1.0)
        * (by.undated if when and not line.speaks_of_time else 1.0)
        for line in lines
    ]
