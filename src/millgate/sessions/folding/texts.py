"""Texts: the texts of a conversation in which lines may stand, each with the name by which a pointer speaks of it.

A name is what the model itself can find: which tool, with which argument, under which call id; or how a message begins.
Messages are read in order, and what is made of one depends on that message and those before it alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from millgate.circles.action import call_number
from millgate.circles.finder import clip
from millgate.transcript.parts import CODE, Part, find_command, owner_of, parse_arguments, read
from millgate.transcript.places import PARSED, Place, value_at
from millgate.transcript.touched import Touched, touched_files

NAMED = 80  # characters of an argument, a command or a beginning that a name holds
ID_CHARS = 64  # longest id that a name holds; a provider's has 24 to 40
MAX_DEPTH = 4  # of arguments in which texts are looked for: an edit stands in a list within them
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
# By the role of a message: whose words it brings, and what they are.
_WORDS = {
    "user": ("the user's", "message"), "assistant": ("your", "message"), "model": ("your", "message"),
    "system": ("the", "system prompt"), "developer": ("the", "system prompt"),
}  # fmt: skip


class Call(NamedTuple):
    """A call of a tool. `number` is the same for the same tool and arguments, `files` are those that it touches."""

    tool: str = ""
    argument: str = ""
    id: str = ""
    number: int = 0
    files: Touched = Touched()

    def describe(self) -> str:
        """The call in the model's own terms."""
        named = f", call {self.id}" if _is_id(self.id) else ""
        return f"your call {self.tool}({self.argument}){named}"


@dataclass(frozen=True, slots=True)
class NamedText:
    """One text of a conversation: where it stands in its message, and how it is named."""

    kind: Literal["result", "call", "words"]
    place: Place
    text: str
    name: str = ""
    """How a pointer names it; empty if it cannot."""
    call: Call = Call()  # noqa: RUF009  (a named tuple)
    """The call that it is the result of, or stands in."""
    is_error: bool = False


class TextReader:
    """Reads a conversation message by message."""

    def __init__(self) -> None:
        self._calls: dict[str, Call | None] = {}  # that wait for results; None if two have one id
        self._before: object = None
        self._counts: Counter[str] = Counter()

    def read(self, message: object) -> list[NamedText]:
        """The texts of the next message."""
        before, self._before = self._before, message
        if not isinstance(message, Mapping):
            return []
        parts = read(message, before)
        if code := find_command(parts):
            number, files = call_number(CODE, {CODE: code}), touched_files(CODE, {"command": code})
            self._calls[CODE] = Call(CODE, _short(code), "", number, files)
        made: list[NamedText] = []
        for part in parts:
            if part.kind == "call":
                made += self._read_call(part)
            elif part.kind in ("human", "system", "summary", "text") and message.get("role") in _WORDS:  # fmt: skip
                whose, noun = _WORDS[message["role"]]
                name = self._name(whose, f"{noun} that begins '{_short(part.text)}'")
                made.append(NamedText("words", part.place, part.text, name))
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
                owner, nth, call = owner_of(part), 0, self._calls.pop(part.id, None)
            if not part.text or not isinstance(value_at(message, part.place), str):
                continue
            if call is None:
                yield NamedText("result", part.place, part.text, is_error=part.is_error)
                continue
            what = f"result of {call.describe()}"
            if call.tool == CODE:
                what = f"output of your command '{call.argument}'"
            elif nth:  # Codex has a status in the first and the output in the second
                ordinal = _ORDINALS[nth] if nth < len(_ORDINALS) else f"{nth + 1}th"
                what = f"{ordinal} text of the {what}"
            name = self._name("the", what, call.id)
            yield NamedText("result", part.place, part.text, name, call, part.is_error)
            nth += 1

    def _read_call(self, part: Part) -> Iterator[NamedText]:
        """A call: the texts in its arguments."""
        given = parse_arguments(part.arguments)
        place = part.place if given is part.arguments else (*part.place, PARSED)
        values = given if isinstance(given, dict) else {"input": given}
        said = next((v for v in values.values() if isinstance(v, str) and v.strip()), "")
        tool = _short(part.tool or "a tool")
        number, files = call_number(tool, part.arguments), touched_files(tool, values)
        call = Call(tool, _short(said), part.id, number, files)
        self._calls[part.id] = None if part.id in self._calls else call
        for names, text in _strings(given, ()):
            what = f"'{_short('.'.join(map(str, names)) or 'input')}' in {call.describe()}"
            yield NamedText("call", (*place, *names), text, self._name("the", what, call.id), call)

    def _name(self, whose: str, what: str, id: str = "") -> str:
        """A name that no other text has: by the id of its call, or as the first, second, … of its kind."""
        count = self._counts[what]
        self._counts[what] += 1
        if _is_id(id):
            return f"{whose} {what}" if count == 0 else ""
        return f"{whose} {_ORDINALS[count]} {what}" if count < len(_ORDINALS) else ""


def _is_id(id: str) -> bool:
    """Whether an id is one that a model was given; Gemini's calls without one are known by their tool's name."""
    return 4 <= len(id) <= ID_CHARS and id.isascii() and id.isprintable() and '"' not in id and any(map(str.isdigit, id))  # fmt: skip


def _strings(value: object, names: Place) -> Iterator[tuple[Place, str]]:
    """The texts of several lines within arguments, with their names."""
    if isinstance(value, str):
        if "\n" in value:
            yield names, value
    elif len(names) < MAX_DEPTH and isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(inner, (*names, name))


def _short(text: str) -> str:
    """The beginning of a text as a name holds it: on one line, without double quotes."""
    return clip(text, NAMED).replace('"', "'")
