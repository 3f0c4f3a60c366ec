"""Wanted: what kind of message a person sends, and how much of it a text must hold to be added unasked.

Context and memories are found without being asked for (proxy, hooks, adapters, memory providers), and a greeting finds
something in every collection. So a message is read by its form first:

nothing     a greeting, thanks, praise, yes or no in every clause, or a slash command
reply       it names nothing: "continue", "why did you do that?", "the second one". It is about what was said before
order       it tells the model to do something: "rename the variable x", "write a haiku"
question    it ends with a question mark or begins with a question word
statement   all else: a claim, a description, a report of a fault, keywords

A text answers a question if it holds little of it, since most of its words ask. An order's words stand in every
collection ("write", "file", "tests"), so much of what it names must be there. The unit of `LEAST_HELD` is the weight of
a term that one text has. Words are English; a message in another language is a question or a statement, and some
short replies are known.
"""

import math
import re
from typing import Final, Literal

from millgate.text.data import load
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.terms import terms, words

Wanted = Literal["nothing", "reply", "order", "question", "statement"]

LEAST_HELD: Final[dict[Wanted, float]] = {
    "nothing": math.inf, "reply": math.inf, "order": 2.75, "question": 1.0, "statement": 1.5,
}  # fmt: skip
"""How much of a message the texts found must hold before they are added unasked; `make bench-unasked` measures it."""

_LISTS: dict[str, str] = load("message_words.json")
_COURTESY = frozenset(_LISTS["courtesy"].split())
_FILLERS = _COURTESY.union(_LISTS["fillers"].split())
_TALK = _FILLERS.union(_LISTS["talk"].split())
_ORDERS = frozenset(_LISTS["orders"].split())
_MOST_CHARS = 2_000  # of a message that are read for its form
_REPLY_WORDS, _REPLY_CHARS = 3, 60
_FOLLOW_UP_TERMS = 3
_QUESTION_MARKS = frozenset("?？؟")
_WORD = lazy_compile(r"[^\W_]+(?:['’][^\W_]+)?")
_COMMAND = lazy_compile(r"/[A-Za-z][\w:.-]*(?:\s|$)")
_LEADING = lazy_compile(
    r"(?:(?:please|now|then|ok(?:ay)?|also|and|so|yes|no|great|good|thanks|cool|alright|well|hey|hi|next|first|just"
    r"|(?:can|could|would|will) (?:you|we)|let'?s|i want you to|i'd like you to|i need you to|you should|go ahead and"
    r"|don'?t|do not|never|always)\b[,:!. ]*)+",
    re.IGNORECASE,
)
_ASKS = lazy_compile(
    r"(?:(?:and|so|but|ok(?:ay)?|hey|hi|also|well)\b[, ]*)*(?:what|which|whom?|whose|when|where|why|how|is|are|was|were"
    r"|do|does|did|has|have|had|(?:in|on|at|by|for|to) (?:what|which))\b",
    re.IGNORECASE,
)
_NAME = lazy_compile(r"(?<=\s)(?!I\b)[A-Z]|\d")
_ADDRESSES = lazy_compile(r"(?:can|could|would|will|did|have|are|were) you\b", re.IGNORECASE)
_CONTINUES = lazy_compile(
    r"\A(?:(?:and|but|so|or)\b|(?:what|how) about\b)|\b(?:its?|they|them|their|theirs|he|him|his|she|her|hers|that|those"
    r"|these|this|the (?:same|other|former|latter))\b",
    re.IGNORECASE,
)


def read_wanted(text: str) -> Wanted:
    """What kind of message it is."""
    said = text.strip()[:_MOST_CHARS]
    if asks_nothing(said):
        return "nothing"
    if names_nothing(said):
        return "reply"
    if _is_order(said):
        return "order"
    asks = not _QUESTION_MARKS.isdisjoint(said) or _ASKS.match(said)
    return "question" if asks else "statement"


def asks_nothing(text: str) -> bool:
    """Whether a message is empty, a slash command, or has nothing but courtesies."""
    said = text.strip()
    return not _WORD.search(said) or is_courtesy(said) or _COMMAND.match(said) is not None


def is_courtesy(text: str) -> bool:
    """Whether a message has nothing but a greeting, thanks, praise, or yes and no."""
    said = _words(text) if len(text) <= _MOST_CHARS else []
    return bool(said) and _FILLERS.issuperset(said) and not _COURTESY.isdisjoint(said)


def names_nothing(text: str) -> bool:
    """Whether a message has only words with which people steer a conversation.

    "Did you push?" has one word more, and asks the model what it did.
    """
    if len(text) > _MOST_CHARS:
        return False
    named = [word for word in _words(text) if word not in _TALK]
    return not named or (len(named) == 1 and _ADDRESSES.match(text.lstrip()) is not None)


def is_reply(text: str) -> bool:
    """Whether a message behind another names too little to be looked up by itself.

    "Fix it" and "yes, do it" have one term; so has "how do I deploy", but more words.
    """
    if names_nothing(text):
        return True
    if len(text) > _REPLY_CHARS or not _QUESTION_MARKS.isdisjoint(text):
        return False
    return len(words(text)) <= _REPLY_WORDS and len({*terms(text)}) <= 1


def continues(text: str) -> bool:
    """Whether a short question points back: "and its filter part?", "how many watts does it use?"."""
    said = text.strip()
    return (
        len(said) <= _MOST_CHARS
        and read_wanted(said) == "question"
        and len({*terms(said)}) <= _FOLLOW_UP_TERMS
        and _CONTINUES.search(said) is not None
        and _NAME.search(said, 1) is None
    )


def _is_order(said: str) -> bool:
    leading = _LEADING.match(said)
    first = _WORD.search(said, leading.end() if leading else 0)
    return first is not None and first[0].lower() in _ORDERS


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]
