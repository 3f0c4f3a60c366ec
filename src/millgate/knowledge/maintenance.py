"""Maintenance of facts: merge different wordings of one fact.

Merging is proposed first, since words alone do not prove that two facts are one. It is recorded in the fact's history,
and what a merged fact said is kept with the one that took it in.
"""

from collections import Counter
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial

from millgate.knowledge.fact_index import language_of
from millgate.knowledge.facts import Facts, unique_names, with_trust
from millgate.text.data import load
from millgate.text.letters import fold
from millgate.text.terms import terms
from millgate.text.words import tokens
from millgate.types import Fact

# share of their tokens that two wordings of one fact have in common
MIN_SAME = 0.85
CONTRARY = frozenset(fold(word) for line in load("contrary_words.json") for word in line.split())
"""Words of many languages by which one text denies another: a fact is too short to be sure of its language."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What a fact says."""

    id: str
    content: str


@dataclass(frozen=True, slots=True)
class Merge:
    """A fact that stays, and other wordings of it that go."""

    kept: Wording
    gone: tuple[Wording, ...]


def merge(facts: Facts, *, saves: bool = True) -> list[Merge]:
    """Join different wordings of one fact into the most trusted, then oldest, of them; or only propose it."""
    merges = []
    for fact, copies in _find_copies(facts):
        if saves:
            # the kept fact is written first: a crash in between leaves a copy and loses nothing
            facts.amend(fact.id, partial(_join, copies=copies, now=facts.now()))
            for copy in copies:
                facts.forget(copy.id)
        kept, *gone = (Wording(one.id, one.content) for one in (fact, *copies))
        merges.append(Merge(kept, tuple(gone)))
    return merges


def _find_copies(facts: Facts) -> list[tuple[Fact, list[Fact]]]:
    gone: set[str] = set()
    found = []
    for fact in sorted(facts.all(), key=lambda f: (-f.trust, f.created, f.id)):
        if fact.id in gone:
            continue
        similar = [other for other in facts.similar(fact) if other.id not in gone]
        copies = [other for other in similar if is_same_fact(fact, other)]
        if copies:
            gone |= {fact.id, *(copy.id for copy in copies)}
            found.append((fact, copies))
    return found


def _join(fact: Fact, *, copies: list[Fact], now: float) -> Fact:
    merged = replace(
        fact,
        tags=unique_names(fact.tags, *(copy.tags for copy in copies)),
        entities=unique_names(fact.entities, *(copy.entities for copy in copies)),
        helpful=fact.helpful + sum(copy.helpful for copy in copies),
        unhelpful=fact.unhelpful + sum(copy.unhelpful for copy in copies),
        recalled=fact.recalled + sum(copy.recalled for copy in copies),
        created=min(fact.created, *(copy.created for copy in copies)),
        wordings=(
            *fact.wordings,
            *(said for copy in copies for said in (copy.content, *copy.wordings)),
        ),
    )
    return with_trust(merged, fact.trust, f"merged {', '.join(copy.id for copy in copies)}", now)


def is_same_fact(one: Fact, other: Fact) -> bool:
    """Whether two facts are two wordings of one.

    They say the same in the same order, and differ at most in a few function words ("the"), none of which denies
    ("not", "off") or stands in both at another place: "from Rome to Oslo" is not "to Rome from Oslo".
    """
    language = language_of(one.content)
    if language == "english":  # which is what a text of few words is taken for
        language = language_of(other.content)
    left, right = (_stems(fact, language) for fact in (one, other))
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    shared = [stem for block in blocks for stem in left[block.a : block.a + block.size]]
    if 2 * len(shared) < MIN_SAME * (len(left) + len(right)):
        return False
    ours, theirs = Counter(left) - Counter(shared), Counter(right) - Counter(shared)
    means = any(isinstance(stem, tuple) or stem in CONTRARY for stem in (*ours, *theirs))
    return not means and not ours & theirs and any(isinstance(stem, tuple) for stem in shared)


def _stems(fact: Fact, language: str) -> list[tuple[int, ...] | tuple[str] | str]:
    """The tokens of a fact in reading order: function words as they are, and as tuples what has a meaning of its own:
    the terms of words, and numbers and the like whole.
    """
    content = fact.content.replace("n't", "nt").replace("n\u2019t", "nt")  # "don't" is one word
    return [
        (tuple(terms(token, language)) or token) if token.isalpha() else (token,)
        for token in tokens(content)
    ]
