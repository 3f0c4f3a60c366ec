"""Steps: when is a call with its result the same as another?

Same tool; same arguments, whatever the order of their names and the white space between them; same result but for what
changes by itself. Both are reduced to a number that is remembered by the text it came from, so in a conversation that is sent
again and again only what is new is read. A result is reduced only when a call like it stands near.
A step that waits (a tool that sleeps, a result that says work is under way) equals no other: that is polling.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import count
from typing import Any

import orjson

from headgate.guard.masks import normalize, without_note

MEMORY = 50_000  # texts whose number is remembered; a few MB
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
_WAITS = -1  # the number of arguments that tell to wait, and of results that say work is under way; no hash is -1

_waiting = count()  # so that no call that waits equals another
_numbers: dict[tuple[str, int, int], int] = {}


class Step:
    """One thing that happened: a call and what came back, or (tool "") a text. `at` is the message with the result.

    `call` is a number that is the same for the same tool and arguments; a call that waits has its own.
    """

    __slots__ = ("_outcome", "answered", "arguments", "at", "call", "first", "result", "tool")

    def __init__(self, tool: str, arguments: Any = None, at: int = 0) -> None:  # noqa: ANN401  (any JSON)
        self.tool, self.arguments, self.at = tool, arguments, at
        self.result: Any = None
        self.answered = False
        self.first: Step | None = None  # the first step that this one is the same as
        number = _arguments_number(arguments)
        if number == _WAITS or _is_waiting(tool):
            number = next(_waiting)
        self.call = hash((tool, number))
        self._outcome: int | None = None

    def answer(self, result: Any, at: int) -> None:  # noqa: ANN401
        """Take in what came back."""
        self.result, self.at, self.answered = result, at, True

    @property
    def outcome(self) -> int:
        """A number that is the same for the same result."""
        if self._outcome is None:
            self._outcome = _remember("result", text_of(self.result), _result_number)
        return self._outcome

    @property
    def waits(self) -> bool:
        """Whether the step waits for something outside: then the same again is polling."""
        return self.outcome == _WAITS

    def find_same(self, others: Iterable["Step"]) -> "Step | None":
        """The first of the others that is the same call with the same result."""
        if not self.answered:
            return None
        call, result = self.call, self.result
        is_text = isinstance(result, str)
        for other in others:
            if other.call != call or not other.answered:
                continue
            if (is_text and result == other.result) or self.outcome == other.outcome:
                return other
        return None


@lru_cache(maxsize=1024)
def _is_waiting(tool: str) -> bool:
    return _WAITING_TOOL.search(tool) is not None


def text_of(content: object) -> str:
    """The text of a result: a string, the texts of its parts, or its JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return _part(content[0]) if len(content) == 1 else "\n".join(map(_part, content))
    return _part(content)


def _part(part: object) -> str:
    if isinstance(part, dict) and isinstance(text := part.get("text"), str) and len(part) <= 3:
        return text
    return as_json(part)


def as_json(value: object) -> str:
    """A value as JSON with sorted names; what cannot be written is equal to itself only."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=repr).decode()
    except (TypeError, ValueError, RecursionError):
        return f"unwritable {id(value)}"


def _remember(kind: str, text: str, number: Callable[[str], int]) -> int:
    """The number of a text, made once."""
    key = (kind, hash(text), len(text))
    found = _numbers.get(key)
    if found is None:
        if len(_numbers) >= MEMORY:
            _numbers.clear()
        found = _numbers[key] = number(text)
    return found


def _result_number(text: str) -> int:
    text = without_note(text)
    return _WAITS if _is_under_way(text) else hash(normalize(text))


def _is_under_way(text: str) -> bool:
    """Whether a result says that work goes on."""
    ends = text if len(text) < 2 * _GLANCE else f"{text[:_GLANCE]} {text[-_GLANCE:]}"
    low = ends.lower()
    return any(word in low for word in _HINTS) and _UNDER_WAY.search(low) is not None


def _arguments_number(arguments: object) -> int:
    if isinstance(arguments, str):
        return _remember("arguments", arguments, _text_number)
    return _NO_ARGUMENTS if arguments is None else _value_number(arguments)


def _text_number(text: str) -> int:
    try:
        return _value_number(orjson.loads(text))
    except orjson.JSONDecodeError:
        return _value_number(text)


def _value_number(value: object) -> int:
    """White space at the ends of a value does not count, nor within one line; between lines it has a meaning."""
    if not isinstance(value, dict):
        return hash(as_json(_tidy(value)))
    if any(isinstance(part, str) and _WAITING_COMMAND.search(part) for part in value.values()):
        return _WAITS
    return hash(as_json({name: _tidy(part) for name, part in value.items()}))


def _tidy(value: object) -> object:
    if not isinstance(value, str):
        return value
    value = value.strip()
    return value if "\n" in value or "  " not in value else " ".join(value.split())


_NO_ARGUMENTS = _value_number({})
