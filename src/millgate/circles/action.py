"""Actions: when is a call with its result the same as another?

Same tool; same arguments, whatever the order of their names and the white space between them; same result but for the
parts that change on every call (`masks`). Tool and arguments are reduced to a number. Results are compared only if the
same call stands near, and read only if they differ. Polling never counts as a circle: a tool that sleeps, or a
result that says work is under way, makes an action that never counts as a repeat.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import orjson

from millgate.circles.masks import (
    BESIDE,
    Effort,
    is_same,
    without_counts,
    without_note,
)
from millgate.transcript.parts import as_json

NAME = 128  # characters of a tool's name that are looked at; no API takes longer ones
_GLANCE = 2_000  # characters at each end of a result in which it may say that work is under way
_WAITING_TOOL = re.compile(r"(?:^|[_.\-])(?:wait_?for|(?:wait|sleep|poll)(?![a-z]))", re.IGNORECASE)
_WAITING_COMMAND = re.compile(r"\bsleep [0-9]")
_DOING = (
    "(?:pending|queued|running|in[_ -]progress|processing|waiting|building|starting|provisioning|"
    "deploying|uploading|downloading)"
)
# Words of which a result that says so holds at least one: looking for them first is cheap.
_HINTS = ("pending", "queued", "progress", "not ", "no new ", "still ", "status", "state", "phase", "process running")  # fmt: skip
_UNDER_WAY = re.compile(
    rf"""\b(?:status|state|phase|progress)\b["'>\s:=]{{1,6}}{_DOING}\b|\bstill {_DOING}\b"""
    r"|\b(?:build|job|run|task|check|deployment|workflow|export|import|sync) (?:is )?in[_ -]progress\b"
    r"|\bnot (?:yet )?(?:ready|finished|complete|completed|done)\b|\bprocess running with\b"
    r"|\bno new (?:messages?|output|events?|mail|data|updates?)\b"
)
_waiting = count()  # so that no call that waits equals another


@dataclass(eq=False)
class Action:
    """One thing that happened: a call and what came back, or (tool "") a text. `at` is the message with the result.

    `call` is a number that is the same for the same tool and arguments; a call that waits has its own.
    """

    tool: str
    arguments: Any = None
    at: int = 0
    result: str = ""
    answered: bool = False
    first: "Action | None" = None
    """The first action that this one is the same as."""
    by_ids: bool | None = None
    """Whether it is the same but for drawn ids; None if it repeats nothing."""

    def __post_init__(self) -> None:
        self.call = call_number(self.tool, self.arguments)

    def answer(self, result: str, at: int) -> None:
        """Take in what came back."""
        self.result, self.at, self.answered = result, at, True

    @cached_property
    def text(self) -> str:
        """The result as the tool gave it."""
        return without_note(self.result)

    @cached_property
    def waits(self) -> bool:
        """Whether the result, or the first that was the same, says that work is under way: then it is polling."""
        return self.first.waits if self.first else _is_under_way(self.text)

    def find_same(self, others: Iterable["Action"], effort: Effort) -> "Action | None":
        """The first of the others that is the same call with the same result.

        If results differ in drawn ids, the ids must be new every time: two equal results and then another one are a
        change, as of a hash that was waited for. `by_ids` says which of both kinds of repeat an action is. In a short
        result the id is what was asked for, as that of the next task of a queue.
        """
        if not self.answered:
            return None
        for other in others:
            if other.call == self.call and other.answered and self._is_same(other, effort):
                by_ids = self.text != other.text and not is_same(self.text, other.text, ids=False)
                if other.by_ids not in (None, by_ids) or (by_ids and len(self.text) < 2 * BESIDE):
                    return None
                self.by_ids = by_ids
                return other
        return None

    def _is_same(self, other: "Action", effort: Effort) -> bool:
        """Whether the results are the same, apart from a count of the copies at their ends."""
        ours, theirs = self.text, other.text
        if is_same(ours, theirs, effort=effort):
            return True
        counted = without_counts(ours, theirs) if "]" in (ours[-1:], theirs[-1:]) else None
        return counted is not None and is_same(*counted, effort=effort)


def _is_under_way(text: str) -> bool:
    """Whether a result says that work goes on; only its beginning and its end are read."""
    ends = text if len(text) < 2 * _GLANCE else f"{text[:_GLANCE]} {text[-_GLANCE:]}"
    low = ends.lower()
    return any(word in low for word in _HINTS) and _UNDER_WAY.search(low) is not None


def call_number(tool: str, arguments: object) -> int:
    """A number that equal calls share; a call that only waits gets one of its own."""
    if _WAITING_TOOL.search(tool[:NAME]):
        return next(_waiting)
    if arguments is None or isinstance(arguments, str):
        arguments = _parse(arguments)
    if not isinstance(arguments, dict):
        return hash((tool, as_json(_tidy(arguments))))
    tidy = {name: _tidy(part) for name, part in arguments.items()}
    text = as_json(tidy)
    if "sleep " in text and any(map(_tells_to_wait, tidy.values())):
        return next(_waiting)
    return hash((tool, text))


def _tells_to_wait(argument: object) -> bool:
    return isinstance(argument, str) and _WAITING_COMMAND.search(argument) is not None


def _parse(text: str | None) -> object:
    """Arguments as a value; no arguments equal an empty object, and invalid JSON stays text."""
    try:
        return {} if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _tidy(value: object) -> object:
    """White space at the ends of a value does not count, nor within one line; between lines it has a meaning."""
    if not isinstance(value, str):
        return value
    value = value.strip()
    return value if "\n" in value or "  " not in value else " ".join(value.split())
