"""Segments: a request cut into the pieces that a provider compares when it looks into its prompt cache.

The order is the one in which providers put the pieces before the model: tools, then system, then messages, block by
block. Texts are not kept. A segment holds a checksum, its length, and a name that a person understands; the name
quotes at most some words.

Two spellings of the same piece are one segment: `"content": "Hi"` and `"content": [{"type": "text", "text": "Hi"}]`.
The order of names in an object does not count. Nor do `cache_control` marks, which clients move each turn; they are
kept beside the segment.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal
from zlib import crc32

import orjson

from millgate.transcript.parts import Part, as_json, parse_arguments, read

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
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
_BESIDE = ("content", "parts", "role", "id", "status", "cache_control")
_MARK = '"cache_control":'  # as a name in JSON
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
    system, messages, first = _split(fields)
    lists = {"tool": (_list_of(fields.get("tools")), 0), "system": (system, 0), "message": (messages, first)}  # fmt: skip
    elements: list[Element] = []
    for kind, cut in _CUTTERS.items():
        values, start = lists[kind]
        known = [element for element in before.elements if element.kind == kind] if before else []
        for at in range(start, len(values)):
            data = _write(values[at])
            checksum, chars = crc32(data), len(data)
            old = known[at - start] if at - start < len(known) else None
            if old is None or (old.checksum, old.chars) != (checksum, chars):
                is_long = _MARK.encode() in data and b'"ttl":"1h"' in data
                old = Element(kind, checksum, chars, tuple(cut(values, at)), is_long)
            elements.append(old)
    parameters = {name: crc32(_write(fields[name])) for name in PARAMETERS if name in fields}
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
    given = (fields.get(name) for name in ("messages", "input", "contents"))
    messages = [m for value in given for m in ([value] if isinstance(value, str) and value else _list_of(value))]  # fmt: skip
    first = next((at for at, m in enumerate(messages) if not _is_system(m)), len(messages))
    blocks = [block for name in _SYSTEM for block in _blocks_of(fields.get(name))]
    return [*blocks, *messages[:first]], messages, first


def _write(value: object) -> bytes:
    try:
        return orjson.dumps(value, default=str)
    except TypeError:  # half a character, as frameworks hand it on
        return repr(value).encode("utf-8", "replace")


def _segment(
    kind: Kind, at: int, name: str, value: object, role: str = "", *, is_marked: bool = False
) -> Segment:
    data = as_json(value)
    if _MARK in data:
        is_marked, data = True, as_json(_without_marks(value))
    checksum = crc32(_encode(data), crc32(role.encode()))
    return Segment(kind, at, name, checksum, len(data), is_marked)


def _without_marks(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_marks(inner) for k, inner in value.items() if k != "cache_control"}
    return [_without_marks(inner) for inner in value] if isinstance(value, list) else value


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _cut_tool(tools: Sequence[object], at: int) -> Iterator[Segment]:
    tool, name = tools[at], str(tools[at])[:QUOTED]
    if isinstance(tool, dict):
        inner = tool.get("function") or tool.get("functionCall")
        named = inner if isinstance(inner, dict) and "name" in inner else tool
        name = str(named.get("name") or tool.get("type") or "")[:64]
    yield _segment("tool", at, f'tools[{at}] "{name}"' if name else f"tools[{at}]", tool)


def _cut_system(blocks: Sequence[object], at: int) -> Iterator[Segment]:
    text, name = _read_system(blocks[at]), f"system block {at + 1}"
    segment = _segment("system", at, f"{name} ({_quote(text)})" if text.strip() else name, blocks[at])  # fmt: skip
    lines = (crc32(_encode(line)) for line in text.split("\n", LINES)[:LINES])
    yield replace(segment, lines=tuple(lines) if text else ())


def _cut_message(messages: Sequence[object], at: int) -> Iterator[Segment]:
    """A segment for each block of a message, and one for what stands beside its content."""
    message, parts = messages[at], read(messages[at])
    if not isinstance(message, dict):
        name = _name_block(messages, at, message, "user", parts)
        yield from (_segment("message", at, name, block, "user") for block in _blocks_of(message))
        return
    role = str(message.get("role") or message.get("type") or "")
    is_marked = message.get("cache_control") is not None
    field = "content" if message.get("content") is not None else "parts"
    content = message.get(field)
    blocks = _blocks_of(content) if isinstance(content, str | list) else ()
    for n, block in enumerate(blocks):
        mine = [part for part in parts if part.place[:2] in ((field,), (field, n))]
        name = _name_block(messages, at, block, role, mine)
        yield _segment("message", at, name, block, role, is_marked=is_marked)
    rest = {name: value for name, value in message.items() if name not in _BESIDE}
    if rest.keys() - {"type"} or not blocks:
        others = [part for part in parts if part.place[:1] != (field,)]
        name = _name_block(messages, at, rest, role, others or parts)
        yield _segment("message", at, name, rest, role, is_marked=is_marked)


_CUTTERS: dict[Kind, Callable[[Sequence[object], int], Iterator[Segment]]] = {
    "tool": _cut_tool, "system": _cut_system, "message": _cut_message,
}  # fmt: skip
"""Who cuts what, in the order in which providers put it before the model."""


def _name_block(
    messages: Sequence[object], at: int, block: object, role: str, parts: Sequence[Part]
) -> str:
    """What a person would call a block: `message 17 (result of Read src/a.py)`; `parts` are what it says."""
    part = parts[0] if parts else None
    inner = role
    if part is None or part.kind == "thinking":
        kind = str(block.get("type") or role) if isinstance(block, dict) else role
        inner = "the model's thinking" if kind.endswith(("thinking", "reasoning")) or part else role
    elif part.kind == "result":
        # the call stands a message or a few before its result
        near = (other for m in reversed(messages[max(0, at - NEAR) : at]) for other in read(m))
        calls = (other for other in near if other.kind == "call" and other.id == part.id)
        inner = f"result of {next(map(_name_call, calls), 'a tool')}"
    elif part.kind == "call":
        inner = f"call of {_name_call(part)}"
    elif part.kind not in ("image", "unknown") and part.text.strip():
        inner = f"{role}: {_quote(part.text)}"
    return f"message {at + 1} ({inner})" if inner else f"message {at + 1}"


def _name_call(call: Part) -> str:
    """The tool, and the path or the command that it was called with if it can be told in a few words."""
    arguments = parse_arguments(call.arguments)
    texts = arguments.values() if isinstance(arguments, dict) else ()
    first = next((text for text in texts if isinstance(text, str) and text), "")
    return f"{call.tool[:64]} {_shorten(first, 2 * QUOTED)}".strip()


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


def _is_system(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") in ("system", "developer")


def _blocks_of(content: object) -> Sequence[object]:
    """Content as blocks: a string is one text block, and Gemini's parts are blocks as they are."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},) if content else ()
    if isinstance(content, dict):
        return _list_of(content.get("parts")) or (content,)
    return content if isinstance(content, list) else () if content is None else (content,)
