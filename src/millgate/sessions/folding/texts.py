"""Parts: the texts of a conversation in which lines may stand, each with the name by which a pointer speaks of it.

A name is what the model itself can find: which tool, with which argument, under which call id; or how a message begins.
Messages are read in order, and what is made of one depends on that message and those before it alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from millgate.circles.action import call_number
from millgate.circles.finder import clip
from millgate.transcript.parts import CODE, Part, find_command, owner_of, read
from millgate.transcript.places import PARSED, Place, value_at
from millgate.transcript.touched import Touched, touched_files

Kind = Literal["result", "call", "words"]

NAMED = 80  # characters of an argument, a command or a beginning that a name holds
ID_CHARS = 64  # longest id that a name holds; a provider's has 24 to 40
MAX_DEPTH = 4  # of arguments in which texts are looked for: an edit stands in a list within them
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
# By the role of a message: whose words it brings, and what they are.
_WORDS = {
    "user": ("the user's", "message"), "assistant": ("your", "message"), "model": ("your", "message"),
    "system": ("the", "system prompt"), "developer": ("the", "system prompt"),
}  # fmt: skip
NO_FILES = Touched()


@dataclass(frozen=True, slots=True)
class NamedText:
    """One text of a conversation: where it stands in its message, and how it is named."""

    kind: Kind
    place: Place
    text: str
    name: str = ""
    """How a pointer names it; empty if it cannot."""
    tool: str = ""
    call: int = 0
    """A number that is the same for the same tool and arguments."""
    files: Touched = NO_FILES
    """The files that its call reads or changes."""
    is_error: bool = False
    is_report: bool = False
    """Whether it is the output of code in the model's words. Its first line shows that it is none of a person's."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that waits for its result."""

    tool: str
    argument: str
    id: str
    number: int
    files: Touched


class TextReader:
    """Reads a conversation message by message."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call | None] = {}  # that wait for results; None if two have one id
        self._before: object = None
        self._counts: Counter[str] = Counter()

    def read(self, message: object) -> list[NamedText]:
        """The texts of the next message."""
        before, self._before = self._before, message
        if not isinstance(message, Mapping):
            return []
        parts = read(message, before)
        if code := find_command(parts):
            number = call_number(CODE, {CODE: code})
            files = touched_files(CODE, {"command": code})
            self._calls[CODE] = _Call(CODE, _short(code), "", number, files)
        made: list[NamedText] = []
        for part in parts:
            if part.kind == "call":
                made += self._call(part)
            elif part.kind in ("human", "system", "summary", "text") and message.get("role") in _WORDS:  # fmt: skip
                whose, noun = _WORDS[message["role"]]
                what = f"{noun} that begins '{_short(part.text)}'"
                made.append(NamedText("words", part.place, part.text, self._name(whose, what)))
        return [*made, *self._read_results(message, parts)]

    def _read_results(
        self, message: Mapping[str, Any], parts: Sequence[Part]
    ) -> Iterator[NamedText]:
        """The texts of results; what stands there as JSON is passed over."""
        owner, call, nth = None, None, 0
        for part in parts:
            if part.kind != "result":
                continue
            if owner_of(part) != owner:
                owner, nth = owner_of(part), 0
                call = self._calls.pop(part.id, None)
            if not part.text or not isinstance(value_at(message, part.place), str):
                continue
            if call is None:
                yield NamedText("result", part.place, part.text, is_error=part.is_error)
                continue
            is_report = call.tool == CODE
            what = (
                f"output of your command '{call.argument}'"
                if is_report
                else _nth_text(nth, f"result of {_describe(call)}")
            )
            yield NamedText(
                "result", part.place, part.text, self._name("the", what, call.id), call.tool, call.number,
                call.files, part.is_error, is_report,
            )  # fmt: skip
            nth += 1

    def _call(self, part: Part) -> list[NamedText]:
        """A call: the texts in its arguments."""
        given = _parse(part.arguments)
        values = given if isinstance(given, dict) else {"input": given}
        said = next((v for v in values.values() if isinstance(v, str) and v.strip()), "")
        tool = _short(part.tool or "a tool")
        number, files = call_number(tool, part.arguments), touched_files(tool, values)
        call = _Call(tool, _short(said), part.id, number, files)
        self._calls[part.id] = None if part.id in self._calls else call
        place = part.place if given is part.arguments else (*part.place, PARSED)
        return [
            NamedText(
                "call",
                (*place, *names),
                text,
                self._name(
                    "the",
                    f"'{_short('.'.join(map(str, names)) or 'input')}' in {_describe(call)}",
                    call.id,
                ),
                tool,
                number,
            )
            for names, text in _strings(given, ())
        ]

    def _name(self, whose: str, what: str, id: str = "") -> str:
        """A name that no other text has: by the id of its call, or as the first, second, … of its kind."""
        count = self._counts[what]
        self._counts[what] += 1
        if _is_id(id):
            return f"{whose} {what}" if count == 0 else ""
        return f"{whose} {_ORDINALS[count]} {what}" if count < len(_ORDINALS) else ""


def _describe(call: _Call) -> str:
    """A call in the model's own terms."""
    named = f", call {call.id}" if _is_id(call.id) else ""
    return f"your call {call.tool}({call.argument}){named}"


def _nth_text(nth: int, result: str) -> str:
    """The name of a text among those of a result: Codex has a status in the first and the output in the second."""
    if nth == 0:
        return result
    named = _ORDINALS[nth] if nth < len(_ORDINALS) else f"{nth + 1}th"
    return f"{named} text of the {result}"


def _is_id(id: str) -> bool:
    """Whether an id is one that a model was given; Gemini's calls without one are known by their tool's name."""
    return 4 <= len(id) <= ID_CHARS and id.isascii() and id.isprintable() and '"' not in id and any(map(str.isdigit, id))  # fmt: skip


def _strings(value: object, names: Place) -> Iterator[tuple[Place, str]]:
    """The texts of several lines within arguments, with their names."""
    if isinstance(value, str):
        if "\n" in value:
            yield names, value
    elif len(names) < MAX_DEPTH and isinstance(value, dict | list):
        rows = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in rows:
            yield from _strings(inner, (*names, name))


def _parse(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments


def _short(text: str) -> str:
    """The beginning of a text as a name holds it: on one line, without double quotes."""
    return clip(text, NAMED).replace('"', "'")
