"""Conflicts: hints that two facts cannot both hold. A hint changes nothing.

Two facts are compared when they share a name (or neither has one) and most of their words. They oppose each
other when one is negated and the other not; when they differ by words of opposite meaning; or when they
differ only in a value: a number, or the name in a place that has one answer (lives in, works at, is called).
The words that tell this are those of several languages (opposing_words.py), and count if one fact alone has them.
"""

import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from millgate.memory.opposing_words import NEGATING_SIGNS, NEGATIONS, OPPOSITES, SINGLE_VALUED
from millgate.text.languages import detect_all
from millgate.text.stopwords import stopwords
from millgate.text.terms import terms, words
from millgate.text.words import tokens
from millgate.types import Fact

MIN_SHARED = 0.5  # of the smaller fact's terms that both must hold: facts that share less are about something else
# Share of their tokens that two wordings of one fact have in common. Chosen, not measured.
MIN_SAME = 0.85

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*+")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A fact that seems to say the opposite, and in which way."""

    id: str
    content: str
    reason: str


def conflict(one: Fact, other: Fact) -> Conflict | None:
    """A hint at `other` if it seems to oppose `one`, else None."""
    if not _are_comparable(one, other):
        return None
    reason = _opposition(one, other) or _value_conflict(one, other)
    return Conflict(other.id, other.content, reason) if reason else None


def is_same_fact(one: Fact, other: Fact) -> bool:
    """Whether two facts are two wordings of one.

    They say the same in the same order, and differ at most in a few function words ("the"). None of these stands in
    both at another place: "from Rome to Oslo" is not "to Rome from Oslo".
    """
    language = _language(one, other)
    left, right = (_stems(fact, language) for fact in (one, other))
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    if not same or 2 * same < MIN_SAME * (len(left) + len(right)):
        return False
    shared = [stem for block in blocks for stem in left[block.a : block.a + block.size]]
    ours, theirs = Counter(left) - Counter(shared), Counter(right) - Counter(shared)
    if any(isinstance(stem, tuple) for stem in (*ours, *theirs)) or ours & theirs:
        return False
    return any(isinstance(stem, tuple) for stem in shared) and conflict(one, other) is None


def _stems(fact: Fact, language: str) -> list[tuple[int, ...] | tuple[str] | str]:
    """The tokens of a fact in reading order: function words as they are, and as tuples what has a meaning of its own:
    the terms of words, and numbers and the like whole.
    """
    return [
        (tuple(terms(token, language)) or token) if token.isalpha() else (token,)
        for token in tokens(_join_negations(fact))
    ]


@lru_cache(maxsize=256)
def language_of(text: str) -> str:
    """The language that a fact is read in."""
    return detect_all([text])[0]


def _language(one: Fact, other: Fact) -> str:
    """The language in which two facts are compared: that of either that is clearly not English, or English."""
    found = language_of(one.content)
    return language_of(other.content) if found == "english" else found


def _are_comparable(one: Fact, other: Fact) -> bool:
    names = _name_words(one), _name_words(other)
    if any(names) and not names[0] & names[1]:
        return False
    left, right = (set(terms(fact.content, _language(one, other))) for fact in (one, other))
    smaller = min(len(left), len(right))
    return smaller > 0 and len(left & right) >= MIN_SHARED * smaller


def _opposition(one: Fact, other: Fact) -> str:
    """How the words that only one of them has oppose each other; nothing if each names someone else."""
    names = _name_words(one), _name_words(other)
    if names[0] - names[1] and names[1] - names[0]:
        return ""
    left, right = _words(one), _words(other)
    ours, theirs = Counter(left) - Counter(right), Counter(right) - Counter(left)
    if _has_negation(ours) != _has_negation(theirs):
        return "one says not"
    for word in sorted(ours):
        for opposite in OPPOSITES.get(word, ()):
            if opposite in theirs:
                return f"{word} against {opposite}"
    return ""


def _has_negation(words: Counter[str]) -> bool:
    return any(word in NEGATIONS or any(sign in word for sign in NEGATING_SIGNS) for word in words)


def _value_conflict(one: Fact, other: Fact) -> str:
    """How two facts differ that are equal but for a value; empty if they do not conflict."""
    left, right = _words(one), _words(other)
    ours, theirs = [w for w in left if w not in right], [w for w in right if w not in left]
    if not (1 <= len(ours) <= 3 and 1 <= len(theirs) <= 3):
        return ""
    numbers = all(_NUMBER.search(word) for word in (*ours, *theirs))
    single = any(word in SINGLE_VALUED for word in left if word in right)
    names = _name_words(one), _name_words(other)
    named = any(w in names[0] for w in ours) and any(w in names[1] for w in theirs)
    if numbers or (single and named):
        return f"{' '.join(ours)} against {' '.join(theirs)}"
    return ""


def _words(fact: Fact) -> list[str]:
    return words(_join_negations(fact))


def _join_negations(fact: Fact) -> str:
    """What a fact says, with "don't" as one word."""
    return fact.content.replace("n't", "nt").replace("n\u2019t", "nt")


def _name_words(fact: Fact) -> set[str]:
    """The words of the names in a fact, without the articles that open a sentence."""
    found = {word for name in fact.entities for word in words(name)}
    return found - stopwords(language_of(fact.content))
