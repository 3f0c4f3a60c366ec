"""Honest repetition: what repeats by its nature, or because it was asked for, and is no loop.

Files hold arrays of zeros, rows of fixtures and empty cells, and a person may ask for a line a hundred times. So these
pass up to GuardPolicy.hopeless_chars: a repetition in a tool call, in structured output or in fenced code; one whose
unit a document, a tool or the system prompt brings; and rows that the model writes again when it is asked again. What a
person's own words ask for passes ASKED times as far. Nothing passes without end. What stands in the request because
the agent quotes the model excuses nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple

from millgate.guard.channels import REASONING, TOOL, Channel
from millgate.guard.detectors import SHORT, TINY, WORDS, Stall, kind_of
from millgate.guard.resume import Message, SentText
from millgate.transcript.parts import is_from_model, question_of, read

_fence = re.compile(r"[ \t>]*+(`{3,}|~{3,})(.*)")
_start = re.compile(r"\n|[.!?] ")  # behind which a line or a sentence starts
_word = re.compile(r"(?<=\s)(?=\S)")
_MARKS = " .,;:!?\"'`*-"  # around a text that is quoted, or an item of a list
# Points of a unit from which it is looked for. It may begin anywhere, but is quoted from the beginning of a line, a
# sentence or a word. Chosen, not measured: a unit with more lines than this is found by its first ones.
STARTS = 32
# Characters on one side of a unit that tell a quotation from a request: who asks for a unit has other words around it.
CONTEXT = TINY
PLACES = 50  # of a unit in a request that are looked at: chosen, not measured

# Of `hopeless_chars`: 262 144 characters, some 64 000 tokens. Few models write a longer answer.
ASKED = 16


class HonestRepetition:
    """Says of a repetition in an answer why it is no loop."""

    def __init__(self, messages: Sequence[Message], sent: SentText, hopeless_chars: int) -> None:
        self._request = RequestText(messages)
        self._sent, self._hopeless_chars = sent, hopeless_chars
        self._is_patient = True  # until a repetition was hopeless
        self._fences = FenceTracker()
        self._fences_read = 0  # parts of `sent` that it has read

    def excuse(self, channel: Channel, stall: Stall, *, is_spliced: bool) -> tuple[str, int]:
        """Why a repetition is not a loop, or not yet, and the length of its run up to which that holds; "" if it is."""
        if channel.name == REASONING:
            return "", 0
        why, most = "", self._hopeless_chars
        run, was_cut = stall.position - stall.onset, channel.relapse.knows(stall.unit)
        if not is_spliced:
            why = "in a tool call" if channel.name == TOOL else "in structured output"
        elif self._is_fenced(channel, stall):
            why = "in fenced code"
        self._is_patient &= run < most
        if not why and was_cut and self._is_patient and _may_be_meant(stall.unit):
            why = "the model was asked again, and wrote the same"
        if not was_cut and (not why or run >= most):
            match self._request.find(stall.unit):
                case "person":
                    why, most = "a person asked for it", ASKED * most
                case "other":
                    why = "it stands in the request"
        return (why, most) if run < most else ("", most)

    def _is_fenced(self, channel: Channel, stall: Stall) -> bool:
        """Whether the repetition stands inside fenced code, and does not open or close it."""
        if any(map(_fence.match, stall.unit.split("\n"))):
            return False
        parts = self._sent.parts
        self._fences.feed("".join(parts[self._fences_read :]))
        self._fences_read = len(parts)
        waiting = copy(self._fences)
        waiting.feed(channel.waiting[: max(0, stall.position - channel.sent)])
        return waiting.is_open


class FenceTracker:
    """Follows a text line by line: whether it is inside fenced code."""

    def __init__(self) -> None:
        self._mark = ""  # of the fence that is open
        self._line = ""  # the last line, which is not complete

    @property
    def is_open(self) -> bool:
        """Whether the last line stands inside fenced code."""
        return bool(self._mark)

    def feed(self, text: str) -> None:
        """Take text in."""
        *lines, self._line = (self._line + text).split("\n")
        for mark, rest in (found.groups() for found in map(_fence.match, lines) if found):
            if not self._mark:
                self._mark = mark
            elif mark.startswith(self._mark) and not rest.strip():
                self._mark = ""


def _may_be_meant(unit: str) -> bool:
    """Whether a model that writes a unit again when it was asked again may mean it: rows of a table, data or code.

    Rows end with a line break. A model in a loop repeats words and syllables ("therefore, ", "fofofo").
    """
    return "\n" in unit and kind_of(unit) not in (*WORDS, "tiny")


class RequestText:
    """What a request brings: the words of a person, and all other text that the model did not write itself.

    Agents quote an answer that they could not use. What stands there only because the model said it before is not
    brought by the request.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._own = ""  # what the model said in the conversation

    def find(self, unit: str) -> Literal["person", "other", ""]:
        """Who brings a unit into the request: a person, another text, or nobody.

        Of the last words of a person 8 characters are enough to tell ("I am sorry"), of a long conversation 40. A
        shorter unit must stand there several times in a row, up to this length.
        """
        if not unit.strip():
            return ""
        # rows that the model has written are data when they are read again
        is_data = kind_of(unit) not in WORDS
        brought = {
            text.is_of_person
            for text, begin, end in islice(self._places(unit), PLACES)
            if is_data or not self._is_quoted(text, begin, end)
        }
        if not brought:
            return ""
        return "person" if True in brought else "other"

    def _places(self, unit: str) -> "Iterator[tuple[_Text, int, int]]":
        """Where a unit stands in the request: the text, and its begin and end there."""
        for start in _starts(unit):
            turned = unit[start:] + unit[:start]
            shown = {chars: _shown(turned, chars) for chars in (TINY, SHORT)}
            for text in self._texts:
                if not (part := shown[text.least]):
                    continue
                begin = text.words.find(part)
                while begin >= 0:
                    yield text, begin, begin + len(part)
                    begin = text.words.find(part, begin + len(part))

    @cached_property
    def _texts(self) -> "list[_Text]":
        """What the model did not write, read when the first repetition asks."""
        persons: list[_Text] = []
        others: list[_Text] = []
        for message in self._messages:
            parts = read(message)
            if is_from_model(message):
                said = (part.text for part in parts if part.kind in ("text", "thinking"))
                self._own += _normalize("\n".join(said)) + "\n"
                continue
            size = len(self._own)
            if words := question_of(parts):
                persons.append(_Text(_normalize(words), size, SHORT, is_of_person=True))
            brought = (part.text for part in parts if part.kind != "image")
            others.append(_Text(_normalize("\n".join(brought)), size, SHORT))
        if persons:
            persons[-1] = persons[-1]._replace(least=TINY)
        return [*reversed(persons), *others]

    def _is_quoted(self, text: "_Text", begin: int, end: int) -> bool:
        """Whether the model said this part of a text before, and what stands right before or behind it there."""
        before = text.words[max(0, begin - CONTEXT) : end]
        behind = text.words[begin : end + CONTEXT]
        return any(
            len(part) == end - begin + CONTEXT and self._own.find(part, 0, text.own_before) >= 0
            for part in (before, behind)
        )


def put_in(messages: Sequence[Message], left_out: Mapping[int, str]) -> tuple[Message, ...]:
    """The messages with answers that a client left out, each behind this number of messages."""
    whole = list(messages)
    for at in sorted(left_out, reverse=True):
        whole.insert(at, {"role": "assistant", "content": left_out[at]})
    return tuple(whole)


class _Text(NamedTuple):
    """A text that the model did not write."""

    words: str
    own_before: int
    """How many characters the model had said before."""
    least: int
    """How many characters of a unit must stand in it."""
    is_of_person: bool = False


def _starts(unit: str) -> list[int]:
    if len(unit) < TINY:
        return list(range(len(unit)))
    ends = [*_start.finditer(unit)] or [*_word.finditer(unit)]
    return [0, *(found.end() for found in ends)][:STARTS]


def _shown(unit: str, chars: int) -> str:
    """A unit as a text would show it; a short one several times in a row, until it has this many characters."""
    for times in range(1, chars + 1):
        plain = _normalize(unit * times)
        shown = plain.strip(_MARKS) or plain
        if len(shown) >= chars:
            return shown
    return ""


def _normalize(text: str) -> str:
    """The text without what JSON and line breaks change in it."""
    for escape in ("\\n", "\\r", "\\t"):
        text = text.replace(escape, " ")
    return " ".join(text.replace("\\", "").casefold().split())
