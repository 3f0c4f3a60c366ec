"""Segments: a request cut into the pieces that a provider compares when it looks into its prompt cache.

The order is the one in which providers put the pieces before the model: tools, then system, then messages, block by
block. Texts are not kept. A segment holds a checksum, its length, and a name that a person understands; the name
quotes at most some words.

Two spellings of the same piece are one segment: `"content": "Hi"` and `"content": [{"type": "text", "text": "Hi"}]`.
The order of names in an object does not count. Nor do `cache_control` marks, which clients move each turn; they are
kept beside the segment.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple
from zlib import crc32

import orjson

from millgate.transcript.parts import Part, as_json, read

Kind = Literal["tool", "system", "message"]

NEAR = 40  # messages among which the call of a result is looked for; parallel calls stand some messages apart
LINES = (
    400  # of a system block that are told apart: those of agents that were recorded have up to 250
)
QUOTED = 24  # characters of a text that a name quotes: enough to recognize it
# What changes the cached prefix without standing in it, by the documentation of the providers: other thinking or
# another choice of tools empties the cache of messages, another output schema stands before the system prompt, and
# prompt_cache_key decides which machine is asked.
PARAMETERS = ("tool_choice", "thinking", "output_config", "response_format", "text", "prompt_cache_key", "service_tier", "speed", "context_management")  # fmt: skip
_LISTS = ("messages", "input", "contents")
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
TTL_S = (
    300.0  # Anthropic's default, and the shortest that OpenAI names: five minutes without a read
)
LONG_TTL_S = 3600.0  # `"ttl": "1h"`


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of a request: what it is, where it stands, and how to tell it from another."""

    kind: Kind
    at: int
    """The place in its list: of the tool, of the system block, or of the message."""
    name: str
    checksum: int
    chars: int
    marked: bool = False
    """Whether `cache_control` stands on it: up to here the provider writes its cache."""
    lines: tuple[int, ...] = ()
    """Checksums of the lines of a system block, so that the one that changed can be named."""

    def same_as(self, other: "Segment") -> bool:
        """Whether both have the same text, by checksum and length."""
        return self.checksum == other.checksum and self.chars == other.chars


@dataclass(frozen=True, slots=True)
class Element:
    """A tool, a system block or a message as it was sent, and its segments."""

    kind: Kind
    checksum: int
    chars: int
    segments: tuple[Segment, ...]
    long_ttl: bool = False
    """Whether a mark on it asks for the long time to live."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as its provider's cache sees it."""

    model: str
    elements: tuple[Element, ...]
    parameters: Mapping[str, int]
    """Checksums of the parameters and headers that the provider keys its cache on."""
    continues: str = ""
    """The id of a stored answer that the request continues: the beginning is then at the provider."""
    marks_itself: bool = False
    """Whether the whole request asks for a cache, so that the provider sets its marks."""

    @property
    def segments(self) -> Iterator[Segment]:
        """All segments in order."""
        return chain.from_iterable(element.segments for element in self.elements)

    @property
    def message_segments(self) -> list[Segment]:
        """Those of the messages."""
        return [segment for segment in self.segments if segment.kind == "message"]

    @property
    def messages(self) -> int:
        """How many messages it has."""
        return sum(element.kind == "message" for element in self.elements)

    @property
    def chars(self) -> int:
        """The length of all elements together."""
        return sum(element.chars for element in self.elements)

    @property
    def is_marked(self) -> bool:
        """Whether anything asks Anthropic's API for a cache."""
        return self.marks_itself or any(segment.marked for segment in self.segments)

    @property
    def ttl_s(self) -> float:
        """How long what it writes lives without being read."""
        return LONG_TTL_S if any(element.long_ttl for element in self.elements) else TTL_S

    @property
    def bytes(self) -> int:
        """About how much memory it takes: 150 for each object and its numbers, and the names."""
        return 500 + sum(
            150 + sum(150 + len(s.name) + 36 * len(s.lines) for s in element.segments)
            for element in self.elements
        )


def read_prompt(
    fields: Mapping[str, Any], *, betas: str = "", before: Prompt | None = None
) -> Prompt:
    """Cut a request into segments; `betas` are the provider's feature headers, which it keys its cache on.

    Elements that stood at the same place of `before` are used again. So a turn that is added to a window of 200 000
    tokens costs one pass over its bytes, and names are made for what is new.
    """
    known: dict[Kind, list[Element]] = {"tool": [], "system": [], "message": []}
    for element in before.elements if before else ():
        known[element.kind].append(element)
    system, messages, first = _split(fields)
    elements = [
        *_read_all("tool", _list_of(fields.get("tools")), known["tool"]),
        *_read_all("system", system, known["system"]),
        *_read_all("message", messages, known["message"], start=first),
    ]
    parameters = {
        name: crc32(orjson.dumps(fields[name], default=str))
        for name in PARAMETERS
        if name in fields
    }
    if betas:
        parameters["anthropic-beta"] = crc32(betas.encode())
    continues = fields.get("previous_response_id") or fields.get("conversation") or ""
    marks_itself = fields.get("cache_control") is not None
    return Prompt(str(fields.get("model") or ""), tuple(elements), parameters, str(continues), marks_itself)  # fmt: skip


def quote_system_line(fields: Mapping[str, Any], block: int, line: int) -> str:
    """The beginning of a line of a system block, both counted from 0; "" if there is none."""
    system = _split(fields)[0]
    lines = _read_system(system[block]).split("\n") if block < len(system) else []
    return _quote(lines[line], 4 * QUOTED) if line < len(lines) and lines[line].strip() else ""


def _split(fields: Mapping[str, Any]) -> tuple[list[object], list[object], int]:
    """The system blocks, all messages, and where the first stands that is no system prompt."""
    messages = [m for name in _LISTS for m in _messages_of(fields.get(name))]
    first = next((at for at, m in enumerate(messages) if not _is_system(m)), len(messages))
    blocks = [block for name in _SYSTEM for block in _blocks_of(fields.get(name))]
    return [*blocks, *messages[:first]], messages, first


def _read_all(
    kind: Kind, values: Sequence[object], known: Sequence[Element], start: int = 0
) -> Iterator[Element]:
    for at in range(start, len(values)):
        data = _write(values[at])
        checksum, chars = crc32(data), len(data)
        old = known[at - start] if at - start < len(known) else None
        if old is not None and old.checksum == checksum and old.chars == chars:
            yield old
        else:
            marks = _Marks()
            segments = tuple(_segments(_Place(kind, at, values), marks))
            yield Element(kind, checksum, chars, segments, marks.long)


def _write(value: object) -> bytes:
    try:
        return orjson.dumps(value, default=str)
    except TypeError:  # half a character, as frameworks hand it on
        return repr(value).encode("utf-8", "replace")


class _Place(NamedTuple):
    """Where an element stands: its list, and the place in it."""

    kind: Kind
    at: int
    values: Sequence[object]


class _Marks:
    """Takes the `cache_control` marks out of blocks, and notes whether one asks for the long time to live."""

    long = False

    def strip(self, block: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """The block without its mark, and whether it had one."""
        mark = block.get("cache_control")
        if mark is None:
            return block, False
        self.long |= isinstance(mark, dict) and mark.get("ttl") == "1h"
        return {name: value for name, value in block.items() if name != "cache_control"}, True


def _segments(place: _Place, marks: _Marks) -> Iterator[Segment]:
    """The segments of one element: a tool and a system block are one, a message has one for each block."""
    message = place.values[place.at]
    if place.kind == "tool":
        tool = _tool_name(message)
        yield _segment(place, message, f'tools[{place.at}] "{tool}"' if tool else f"tools[{place.at}]", marks)  # fmt: skip
    elif place.kind == "system":
        text = _read_system(message)
        name = f"system block {place.at + 1}"
        yield _segment(place, message, f"{name} ({_quote(text)})" if text.strip() else name, marks, text)  # fmt: skip
    elif isinstance(message, dict):
        message, is_marked = marks.strip(message)
        for segment in _message_segments(place, message, marks):
            yield replace(segment, marked=True) if is_marked else segment
    else:
        name = _name_block(place, message, "user", read(message))
        yield from (_segment(place, block, name, marks, role="user") for block in _blocks_of(message))  # fmt: skip


def _message_segments(place: _Place, message: dict[str, Any], marks: _Marks) -> Iterator[Segment]:
    role = str(message.get("role") or message.get("type") or "")
    field = "content" if message.get("content") is not None else "parts"
    content, parts = message.get(field), read(message)
    blocks = _blocks_of(content) if isinstance(content, str | list) else ()
    for at, block in enumerate(blocks):
        mine = [part for part in parts if part.place[:2] in ((field,), (field, at))]
        yield _segment(place, block, _name_block(place, block, role, mine), marks, role=role)
    rest = {
        k: v for k, v in message.items() if k not in ("content", "parts", "role", "id", "status")
    }
    if rest.keys() - {"type"} or not blocks:
        others = [part for part in parts if part.place[:1] != (field,)]
        name = _name_block(place, rest, role, others or parts)
        yield _segment(place, rest, name, marks, role=role)


def _segment(
    place: _Place, value: object, name: str, marks: _Marks, text: str = "", *, role: str = ""
) -> Segment:
    """A segment; `text` is that of a system block."""
    marked = False
    if isinstance(value, dict):
        value, marked = marks.strip(value)
    data = as_json(value)
    if '"cache_control"' in data:  # inside a tool result
        data = as_json(_without_marks(value, marks))
    checksum = crc32(_encode(data), crc32(role.encode()))
    lines = tuple(crc32(_encode(line)) for line in text.split("\n", LINES)[:LINES])
    return Segment(place.kind, place.at, name, checksum, len(data), marked, lines if text else ())


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _without_marks(value: object, marks: _Marks) -> object:
    if isinstance(value, dict):
        stripped, _ = marks.strip(value)
        return {name: _without_marks(inner, marks) for name, inner in stripped.items()}
    if isinstance(value, list):
        return [_without_marks(inner, marks) for inner in value]
    return value


# Names


def _name_block(place: _Place, block: object, role: str, parts: Sequence[Part]) -> str:
    """What a person would call a block: `message 17 (result of Read src/a.py)`; `parts` are what it says."""
    part = parts[0] if parts else None
    inner = role
    if part is None or part.kind == "thinking":
        kind = str(block.get("type") or role) if isinstance(block, dict) else role
        inner = "the model's thinking" if kind.endswith(("thinking", "reasoning")) or part else role
    elif part.kind == "result":
        inner = f"result of {_find_call(part.id, place)}"
    elif part.kind == "call":
        inner = f"call of {_call_name(part)}"
    elif part.kind not in ("image", "unknown") and part.text.strip():
        inner = f"{role}: {_quote(part.text)}"
    return f"message {place.at + 1} ({inner})" if inner else f"message {place.at + 1}"


def _find_call(id: str, place: _Place) -> str:
    """The call with this id, which stands a message or a few before its result."""
    for message in reversed(place.values[max(0, place.at - NEAR) : place.at]):
        for part in read(message):
            if part.kind == "call" and part.id == id:
                return _call_name(part)
    return "a tool"


def _call_name(call: Part) -> str:
    """The tool, and the path or the command that it was called with if it can be told in a few words."""
    arguments = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            arguments = {}
    texts = list(arguments.values()) if isinstance(arguments, dict) else []
    first = next((text for text in texts if isinstance(text, str) and text), "")
    return f"{call.tool[:64]} {_shorten(first, 2 * QUOTED)}".strip()


def _tool_name(value: object) -> str:
    if not isinstance(value, dict):
        return str(value)[:QUOTED]
    inner = value.get("function") or value.get("functionCall")
    named = inner if isinstance(inner, dict) and "name" in inner else value
    return str(named.get("name") or value.get("type") or "")[:64]


def _read_system(value: object) -> str:
    """The text of a system message, or of a block of a system prompt."""
    message = value if _is_system(value) else {"role": "system", "content": [value]}
    return "\n".join(part.text for part in read(message) if part.kind == "system")


def _quote(text: str, length: int = QUOTED) -> str:
    return f'"{_shorten(text, length)}"'


def _shorten(text: str, length: int) -> str:
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length else f"{line[:length]}…"


def _list_of(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _messages_of(value: object) -> Sequence[object]:
    return [value] if isinstance(value, str) and value else _list_of(value)


def _is_system(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") in ("system", "developer")


def _blocks_of(content: object) -> Sequence[object]:
    """Content as blocks: a string is one text block, and Gemini's parts are blocks as they are."""
    if content is None:
        return ()
    if isinstance(content, str):
        return ({"type": "text", "text": content},) if content else ()
    if isinstance(content, dict):
        return _list_of(content.get("parts")) or (content,)
    return content if isinstance(content, list) else (content,)
