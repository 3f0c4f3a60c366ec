"""Cues: which lines of a conversation are likely to answer a question, by their looks, in every language.

A line that ends with a question asks and seldom tells. Where sessions are stored, the question itself is such a line,
and the best match of its own words. What Ann did is mostly told by Ann: on three conversations and 414 labeled
questions the speaker brings .012 of the evidence in 1,000 tokens. That a line names no time where the query asks when
brought nothing beside these.
"""

from collections.abc import Sequence

from millgate.text.terms import terms
from millgate.text.turns import part

_TAIL = 400  # characters at the end of a line that are looked at for a question and a remark


def cues(
    query: str, lines: Sequence[str], language: str, *, question: float, other_speaker: float
) -> list[float]:
    """What is left of the score of each line, given as it stands with date and speaker.

    It is `question` of a line that asks, and `other_speaker` of one whose speaker is not the one whom the query names.
    """
    parts = [part(line) for line in lines]
    asked = {*terms(query, language)}
    speakers = {line.speaker for line in parts}
    named = {one for one in speakers if not asked.isdisjoint(terms(one, language))}
    return [
        (question if _asks(line.body[-_TAIL:]) else 1.0)
        * (other_speaker if len(named) == 1 and line.speaker not in named else 1.0)
        for line in parts
    ]


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
