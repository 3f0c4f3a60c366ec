"""Parts: the texts of a conversation in which lines may stand, each with the name by which a pointer speaks of it.

A name is what the model itself can find: which tool, with which argument, under which call id; or how a message begins.
Messages are read in order, and what is made of one depends on that message and those before it alone. The four APIs
are read in the shape that their dialects give them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from millgate.guard.calls import (  # fmt: skip
    CALL_TYPES,
    RESULT_TYPES,
    find_code,
    is_from_model,
    is_report,
    kind_of,
    plain_text,
)
from millgate.guard.steps import Step
from millgate.guard.tools import clip
from millgate.guard.touched import Touched, touched_files

Message = dict[str, Any]
Path = tuple[str | int, ...]
Kind = Literal["result", "call", "model", "user", "system"]

NAMED = 80  # characters of an argument, a command or a beginning that a name holds
ID_CHARS = 64  # longest id that a name holds; a provider's has 24 to 40
MAX_DEPTH = 4  # of arguments in which texts are looked for: an edit stands in a list within them
PARSED = "\0json"  # a step of a path: what stands there is JSON in a text
_TEXTS = frozenset({"text", "input_text", "output_text"})
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
NO_FILES = Touched()


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a conversation: where it stands in its message, and how it is named."""

    kind: Kind
    path: Path
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


class PartReader:
    """Reads a conversation message by message."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call | None] = {}  # that wait for results; None if two have one id
        self._command: _Call | None = None  # code in the last words of the model
        self._last: object = None
        self._counts: Counter[str] = Counter()

    def read(self, message: object) -> list[Part]:
        """The texts of the next message."""
        last, self._last = self._last, _ending(message)
        if not isinstance(message, dict):
            return []
        command, self._command = self._command, None
        role = message.get("role")
        if role in ("tool", "function"):
            id = message.get("tool_call_id") or message.get("name")
            return self._result(message, id, "content", ())
        if is_from_model(message):
            return self._from_model(message)
        if role in ("system", "developer"):
            return self._read_words(message, "system", "the", "system prompt")
        if kind_of(message) in RESULT_TYPES:
            return self._result(message, message.get("call_id"), "output", ())
        if role != "user":
            return []
        if command is not None and is_report(message, last):
            what = f"output of your command '{command.argument}'"
            return [
                Part(
                    "result",
                    path,
                    text,
                    self._name("the", what),
                    command.tool,
                    command.number,
                    command.files,
                    is_report=True,
                )
                for path, text in _texts(message.get("content"), ("content",))
            ]
        return self._from_user(message)

    def _from_user(self, message: Message) -> list[Part]:
        """What a person said, and the results of tools that stand beside it."""
        parts = self._read_words(message, "user", "the user's", "message")
        content = message.get("content")
        for at, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict) and kind_of(block) in RESULT_TYPES:
                field = "content" if "content" in block else "output"
                id = block.get("tool_use_id") or block.get("call_id")
                parts += self._result(block, id, field, ("content", at))
        return parts

    def _result(self, block: Message, id: object, field: str, path: Path) -> list[Part]:
        """The texts of a result."""
        call = self._calls.pop(id, None) if isinstance(id, str) else None
        texts = list(_texts(block.get(field), (*path, field)))
        is_error = block.get("is_error") is True or block.get("status") in ("error", "failed")
        if call is None:
            return [Part("result", where, text, is_error=is_error) for where, text in texts]
        return [
            Part(
                "result",
                where,
                text,
                self._name("the", _nth_text(nth, f"result of {_describe(call)}"), call.id),
                call.tool,
                call.number,
                call.files,
                is_error,
            )
            for nth, (where, text) in enumerate(texts)
        ]

    def _from_model(self, message: Message) -> list[Part]:
        """What the model said and wrote: its words, and the texts in the arguments of its calls."""
        parts = self._read_words(message, "model", "your", "message") if message.get("role") else []
        if code := find_code(plain_text(message.get("content"))):
            files = touched_files("code", {"command": code})
            number = Step("code", {"code": code}).call
            self._command = _Call("code", _short(code), "", number, files)
        for tool, id, arguments, path in _calls_of(message):
            parts += self._call(tool, id, arguments, path)
        return parts

    def _call(self, tool: str, id: str, arguments: object, path: Path) -> list[Part]:
        """A call: the texts in its arguments."""
        given = _parse(arguments)
        values = given if isinstance(given, dict) else {"input": given}
        said = next((v for v in values.values() if isinstance(v, str) and v.strip()), "")
        number, files = Step(tool, arguments).call, touched_files(tool, values)
        call = _Call(tool, _short(said), id, number, files)
        self._calls[id] = None if id in self._calls else call
        steps: Path = (PARSED,) if given is not arguments else ()
        return [
            Part(
                "call",
                (*path, *steps, *names),
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

    def _read_words(self, message: Message, kind: Kind, whose: str, noun: str) -> list[Part]:
        """The words of a message; named by how they begin."""
        return [
            Part(kind, path, text, self._name(whose, f"{noun} that begins '{_short(text)}'"))
            for path, text in _texts(message.get("content"), ("content",))
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


def _calls_of(message: Message) -> Iterator[tuple[str, str, object, Path]]:
    """The calls of a message: tool, id, arguments, and where the arguments stand."""
    if (kind := kind_of(message)) in CALL_TYPES:
        yield _call(message, kind, ())
    content = message.get("content")
    for at, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict) and (kind := kind_of(block)) in CALL_TYPES:
            yield _call(block, kind, ("content", at))
    calls = message.get("tool_calls")
    for at, call in enumerate(calls if isinstance(calls, list) else ()):
        for kind in ("function", "custom"):
            made = call.get(kind) if isinstance(call, dict) else None
            if isinstance(made, dict):
                field = "arguments" if "arguments" in made else "input"
                where: Path = ("tool_calls", at, kind, field)
                yield _tool(made.get("name")), _text(call.get("id")), made.get(field), where


def _call(block: Message, kind: str, path: Path) -> tuple[str, str, object, Path]:
    field = next((f for f in ("input", "arguments", "action") if block.get(f) is not None), "input")
    id = _text(block.get("call_id") or block.get("id"))
    return _tool(block.get("name") or kind), id, block.get(field), (*path, field)


def _texts(content: object, path: Path) -> Iterator[tuple[Path, str]]:
    """The texts of content: itself, or those of its blocks."""
    if isinstance(content, str):
        yield path, content
    for at, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict) and kind_of(block) in _TEXTS and isinstance(block.get("text"), str):  # fmt: skip
            yield (*path, at, "text"), block["text"]


def _strings(value: object, names: Path) -> Iterator[tuple[Path, str]]:
    """The texts of several lines within arguments, with their names."""
    if isinstance(value, str):
        if "\n" in value:
            yield names, value
    elif len(names) < MAX_DEPTH and isinstance(value, dict | list):
        rows = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in rows:
            yield from _strings(inner, (*names, name))


def text_at(message: object, path: Path) -> str:
    """The text at a path of a message."""
    value = message
    for step in path:
        value = orjson.loads(value) if step == PARSED else value[step]  # type: ignore[index,arg-type]
    return str(value)


def replace_text(message: Any, path: Path, text: str) -> Any:  # noqa: ANN401  any JSON
    """The message with another text at a path; what does not lie on the path is the same object."""
    if not path:
        return text
    copy: Any = dict(message) if isinstance(message, Mapping) else list(message)
    copy[path[0]] = replace_text(message[path[0]], path[1:], text)
    return copy


def _parse(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments


def _ending(message: object) -> object:
    """What the next message needs of this one: the model's words, if they are."""
    return message if is_from_model(message) else None


def _short(text: str) -> str:
    """The beginning of a text as a name holds it: on one line, without double quotes."""
    return clip(text, NAMED).replace('"', "'")


def _tool(name: object) -> str:
    return _short(str(name or "a tool"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
