"""Speakers: a question that names one of those who speak in a conversation is mostly answered by that one.

Two other cues were dropped, since on three sets of chats and meetings they change evidence by .001 at most: a line that
asks, and a line without a word about time for a question about time.
"""

from collections.abc import Sequence

from headgate.text.terms import terms
from headgate.text.turns import part


def others_speak(query: str, texts: Sequence[str], language: str) -> list[bool]:
    """For each line, given as it stands with date and speaker, whether someone else speaks than the one the query
    names. A query that names none of them, or several, tells nothing.
    """
    speakers = [part(text).speaker for text in texts]
    asked = {*terms(query, language)}
    named = {one for one in {*speakers} if not asked.isdisjoint(terms(one, language))}
    return [len(named) == 1 and speaker not in named for speaker in speakers]
