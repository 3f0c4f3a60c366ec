"""Conflicts: hints that two facts cannot both hold. A hint changes nothing.

Two facts are compared when they share a name (or neither has one) and most of their words. They oppose each
other when one is negated and the other not; when they differ by words of opposite meaning; or when they
differ only in a value: a number, or the name in a place that has one answer (lives in, works at, is called).
"""

import re
from dataclasses import dataclass

from headgate.text.terms import terms, words
from headgate.types import Fact

MIN_SHARED = 0.5  # of the smaller fact's terms that both must hold: facts that share less are about something else
MIN_SAME = 0.85  # Jaccard of terms from which two wordings are one fact

_NEGATIONS = frozenset({
    "not", "no", "never", "none", "without", "cannot", "cant", "dont", "doesnt", "didnt", "isnt", "arent",
    "wasnt", "werent", "wont", "wouldnt", "shouldnt", "couldnt", "hasnt", "havent", "hadnt", "stopped",
    "quit",
})  # fmt: skip
_OPPOSITE_PAIRS = (
    ("enabled", "disabled"), ("enable", "disable"), ("on", "off"), ("true", "false"), ("always", "never"),
    ("likes", "dislikes"), ("like", "dislike"), ("loves", "hates"), ("love", "hate"), ("allowed", "forbidden"),
    ("allow", "deny"), ("required", "optional"), ("public", "private"), ("open", "closed"), ("up", "down"),
    ("alive", "dead"), ("married", "single"), ("before", "after"), ("more", "less"), ("increase", "decrease"),
    ("success", "failure"), ("passes", "fails"), ("works", "broken"), ("safe", "unsafe"), ("valid", "invalid"),
    ("accepts", "rejects"), ("accept", "reject"), ("start", "stop"), ("hot", "cold"), ("fast", "slow"),
    ("vegetarian", "meat"), ("dark", "light"), ("tabs", "spaces"), ("sync", "async"), ("allergic", "loves"),
)  # fmt: skip
_OPPOSITES = {one: other for pair in _OPPOSITE_PAIRS for one, other in (pair, pair[::-1])}
# After these a fact has one answer: two different ones oppose each other.
_SINGLE_VALUED = frozenset({
    "lives", "live", "works", "located", "called", "named", "is", "was", "born", "default", "port",
    "version", "host", "prefers", "favorite", "deadline", "runs", "deployed", "owner", "manager",
    "password", "uses",
})  # fmt: skip
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*+")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A fact that seems to say the opposite, and in which way."""

    id: str
    content: str
    reason: str


def conflict(one: Fact, other: Fact) -> Conflict | None:
    """A hint at `other` where it seems to oppose `one`, else None."""
    if not _are_comparable(one, other):
        return None
    reason = (
        _negation_conflict(one, other) or _opposite_words(one, other) or _value_conflict(one, other)
    )
    return Conflict(other.id, other.content, reason) if reason else None


def is_same_fact(one: Fact, other: Fact) -> bool:
    """Whether two facts are two wordings of one: nearly the same terms, the same numbers, no opposition."""
    left, right = set(terms(one.content)), set(terms(other.content))
    if not left or len(left & right) < MIN_SAME * len(left | right):
        return False
    return _numbers(one) == _numbers(other) and conflict(one, other) is None


def _are_comparable(one: Fact, other: Fact) -> bool:
    names = [{name.lower() for name in fact.entities} for fact in (one, other)]
    if any(names) and not names[0] & names[1]:
        return False
    left, right = (set(terms(fact.content)) for fact in (one, other))
    smaller = min(len(left), len(right))
    return smaller > 0 and len(left & right) >= MIN_SHARED * smaller


def _negation_conflict(one: Fact, other: Fact) -> str:
    counts = [sum(word in _NEGATIONS for word in _words(fact)) for fact in (one, other)]
    return "one says not" if counts[0] % 2 != counts[1] % 2 else ""


def _opposite_words(one: Fact, other: Fact) -> str:
    left, right = set(_words(one)), set(_words(other))
    for word in sorted(left - right):
        if _OPPOSITES.get(word) in right - left:
            return f"{word} against {_OPPOSITES[word]}"
    return ""


def _value_conflict(one: Fact, other: Fact) -> str:
    """How two facts differ that are equal but for a value; empty if they do not conflict."""
    left, right = _words(one), _words(other)
    ours, theirs = [w for w in left if w not in right], [w for w in right if w not in left]
    if not (1 <= len(ours) <= 3 and 1 <= len(theirs) <= 3):
        return ""
    numbers = all(_NUMBER.search(word) for word in (*ours, *theirs))
    single = any(word in _SINGLE_VALUED for word in left if word in right)
    names = _name_words(one), _name_words(other)
    named = any(w in names[0] for w in ours) and any(w in names[1] for w in theirs)
    if numbers or (single and named):
        return f"{' '.join(ours)} against {' '.join(theirs)}"
    return ""


def _words(fact: Fact) -> list[str]:
    return words(fact.content.replace("n't", "nt").replace("n’t", "nt"))


def _name_words(fact: Fact) -> set[str]:
    return {word for name in fact.entities for word in words(name)}


def _numbers(fact: Fact) -> list[str]:
    return sorted(_NUMBER.findall(fact.content))
