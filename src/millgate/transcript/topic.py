"""Topic: what a message of a conversation is about, read with the question before it.

A reply names nothing ("continue", "the second one"), and a follow-up points back ("and its filter part?"). Everything
that finds context for a message looks up what `Topic.read` gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millgate.text.wanted import asks_nothing, continues, is_reply, names_nothing
from millgate.transcript.parts import question_of, read_all


@dataclass(slots=True)
class Topic:
    """The last message that named something, and whether its context could not be built."""

    question: str = ""
    was_missed: bool = False

    def read(self, said: str) -> str:
        """What to look up for a message; "" if it asks for nothing, or for nothing new."""
        if asks_nothing(said):
            return ""
        if names_nothing(said) or (self.question and is_reply(said)):
            return self.question if self.was_missed else ""
        if self.question and continues(said):
            return f"{self.question}\n{said}"
        self.question, self.was_missed = said, False
        return said


def read_with_topic(query: str, window: object) -> str:
    """A query that points back, with the question before it among the messages of a window."""
    if not isinstance(window, Sequence) or isinstance(window, str) or not continues(query):
        return query
    topic = Topic()
    for parts in read_all(message for message in window if isinstance(message, Mapping)):
        said = question_of(parts)
        if said and said != query.strip():
            topic.read(said)
    return topic.read(query)
