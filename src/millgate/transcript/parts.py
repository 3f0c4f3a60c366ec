"""Parts: a message of any API or agent, cut into who says what.

`read` knows chat completions (with the old `function_call`), Anthropic's messages, items of responses, Gemini's
contents, a prompt that is a bare text, and the blocks that agents write into their own files (pi, OpenCode). A content
that is a text is one block of text. Marks for the provider's cache, ids of messages and other decoration are no part of
what is said. A shape that nobody knows is one part of kind `unknown`, whose text is its JSON.

system      instructions, and what a program put into a user's message
human       a text of a user's message that holds words of a person
text        words of the model             thinking    what it thought
call        a call of a tool; `text` are its arguments as they were written, or as JSON
result      a text of what came back: `id` is that of the call; a result without a text is one part without one
summary     a text that stands for what was said before; `compaction` is one that the provider made
image       anything that is no text; `text` is a digest of it, `id` that of the call if it is part of a result
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import orjson

from millgate.transcript.places import Place, replace_text, text_at, text_block
from millgate.transcript.words import announces_summary, find_code, find_question, is_report

Kind = Literal["system", "human", "text", "thinking", "call", "result", "summary", "compaction", "image", "unknown"]  # fmt: skip
CODE = "code"  # the tool, and the id, of a command that the model writes as code in its text
IMAGE_TOKENS = 1_500  # about what providers charge for a screenshot

_AUTHORS: dict[object, Kind] = {
    "user": "human", "human": "human", "assistant": "text", "model": "text", "system": "system", "developer": "system",
}  # fmt: skip
_RESULT_ROLES = ("tool", "function", "toolResult")
_TEXTS = ("", "text", "input_text", "output_text", "summary_text", "reasoning_text")
_BY_FIELD = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
)  # Gemini's parts have no type
_IDS = ("tool_call_id", "toolCallId", "call_id", "tool_use_id", "id", "name")
_RESULTS = ("_call_output", "tool_result")  # how their types end
_JOINED = ("result", "human", "text", "system", "thinking")
_SHOWN = ("system", "human", "text", "result", "summary", "compaction")
_DECORATION = ("cache_control", "part")


class Part(NamedTuple):
    """One part of a message. `place` leads to its text there, or to the value of which the text is the JSON."""

    kind: Kind
    text: str
    id: str = ""
    tool: str = ""
    arguments: Any = None
    place: Place = ()
    is_error: bool = False


def read(message: object, before: object = None) -> tuple[Part, ...]:
    """The parts of a message, in order. `before` is the message before it, whose code it may report on."""
    if isinstance(message, str):
        return tuple(_words(message, "human", ()))
    if not isinstance(message, Mapping):
        return () if message is None else (_unknown(message),)
    role = message.get("role")
    if role in _RESULT_ROLES:
        return tuple(_read_result(message, ()))
    author = _AUTHORS.get(role) if isinstance(role, str) else None
    if author is None:
        return tuple(_block(message, "unknown", ()))
    parts = list(_read_authored(message, author))
    if author == "human" and before is not None:
        first = next((part for part in parts if part.kind in ("human", "system")), None)
        if first is not None and is_report(first.text) and find_command(read(before)):
            return tuple(p._replace(kind="result", id=CODE, tool=CODE) if p.kind in ("human", "system") else p for p in parts)  # fmt: skip
    return tuple(parts)


def read_all(messages: Iterable[object]) -> Iterator[tuple[Part, ...]]:
    """The parts of each message of a conversation."""
    before: object = None
    for message in messages:
        yield read(message, before)
        before = message


def find_command(parts: Sequence[Part]) -> str:
    """The code that the model wrote as a command in its text; "" if there is none, or if it called a tool."""
    if any(part.kind == "call" for part in parts):
        return ""
    return find_code("\n".join(part.text for part in parts if part.kind == "text"))


def question_of(parts: Iterable[Part]) -> str:
    """What a person asks in a message."""
    asked = (find_question(part.text) for part in parts if part.kind == "human")
    return "\n".join(words for words in asked if words)


def texts_of(message: object) -> list[str]:
    """The texts that stand in the window with a message, results included; not what the model called or thought."""
    return [part.text for part in read(message) if part.text and part.kind in _SHOWN]


def insert(message: Mapping[str, Any], block: str) -> Mapping[str, Any]:
    """A user message with a block before a person's words; without words, behind the results that it brings.

    A text and a list with that text get the same words, so that a client may write now one and now the other.
    """
    parts = read(message)
    words = (part.place for kind in ("human", "summary") for part in parts if part.kind == kind)
    place = next(words, ())
    if place:
        changed: Mapping[str, Any] = replace_text(message, place, f"{block}\n\n{text_at(message, place)}")  # fmt: skip
        return changed
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": f"{block}\n\n{content}" if content else block}
    results = [at for at, one in enumerate(content) if is_result(one)]
    at = results[-1] + 1 if results else 0
    return {**message, "content": [*content[:at], text_block(block, content), *content[at:]]}


def is_from_model(message: object) -> bool:
    """Whether the model wrote a message or item."""
    if not isinstance(message, Mapping):
        return False
    kind = _type_of(message)
    return (
        message.get("role") in ("assistant", "model")
        or kind.endswith("_call")
        or kind == "reasoning"
    )


def is_result(block: object) -> bool:
    """Whether a block or item is what came back of a call."""
    return isinstance(block, Mapping) and _type_of(block).endswith(_RESULTS)


def is_from_person(message: object, before: object = None) -> bool:
    """Whether a person says or shows something in a message."""
    return any(p.kind == "human" or _is_shown(p, message) for p in read(message, before))


def _is_shown(part: Part, message: object) -> bool:
    return part.kind == "image" and not part.id and not is_from_model(message)


def join_texts(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts with the texts of one result, and what one author says in a row, as one part."""
    last: Part | None = None
    for part in parts:
        if last is not None and part.kind in _JOINED and owner_of(part) == owner_of(last):
            is_error = last.is_error or part.is_error
            last = last._replace(text=f"{last.text}\n{part.text}", is_error=is_error)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def owner_of(part: Part) -> tuple[object, ...]:
    """What a text belongs to: a result in a message that may bring several has its block; all else has its author."""
    in_block = part.kind == "result" and part.place[2:3] not in ((), ("text",))
    return part.kind, part.id, part.place[:2] if in_block else ()


def _read_authored(message: Mapping[str, Any], author: Kind) -> Iterator[Part]:
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str):
        field = "reasoning_content" if message.get("reasoning_content") else "reasoning"
        yield Part("thinking", thought, place=(field,))
    field = "content" if message.get("content") is not None else "parts"
    content = message.get(field)
    if isinstance(content, str):
        yield from _words(content, author, (field,))
    elif isinstance(content, list | tuple):
        for at, block in enumerate(content):
            yield from _block(block, author, (field, at))
    elif content is not None:
        yield _unknown(content)
    calls = message.get("tool_calls")
    for at, call in enumerate(calls) if isinstance(calls, list | tuple) else ():
        yield _called(call, ("tool_calls", at))
    if isinstance(old := message.get("function_call"), Mapping):
        name = _text(old.get("name"))
        yield _call(old, name, name, ("function_call",))


def _words(text: str, author: Kind, place: Place) -> Iterator[Part]:
    if not text:
        return
    kind = author
    if author == "human" and not find_question(text):
        kind = "summary" if announces_summary(text) else "system"
    yield Part(kind, text, place=place)


def _block(block: object, author: Kind, place: Place) -> Iterable[Part]:
    """The parts of a block of a message, or of an item that has no author."""
    if not isinstance(block, Mapping):
        return _words(block, author, place) if isinstance(block, str) else (_unknown(block),)
    kind, text = _type_of(block), block.get("text")
    if isinstance(text, str) and kind in _TEXTS:
        return _words(text, "thinking" if block.get("thought") else author, (*place, "text"))
    kind = kind or next((name for name in _BY_FIELD if name in block), "")
    for ends, reader in _READERS:
        if kind.endswith(ends):
            return reader(block, place)
    return (_unknown(block),)


def _called(call: object, place: Place) -> Part:
    """A call of chat completions."""
    for kind in ("function", "custom"):
        made = call.get(kind) if isinstance(call, Mapping) else None
        if isinstance(made, Mapping):
            assert isinstance(call, Mapping)
            return _call(made, _text(call.get("id")), _text(made.get("name")), (*place, kind))
    return _unknown(call)


def _call(made: Mapping[str, Any], id: str, tool: str, place: Place) -> Part:
    fields = ("input", "arguments", "action", "args")
    field = next((name for name in fields if made.get(name) is not None), "input")
    arguments = made.get(field)
    written = arguments if isinstance(arguments, str) else as_json(arguments)
    return Part("call", written, id, tool, arguments, (*place, field))


def _read_call(block: Mapping[str, Any], place: Place) -> Iterator[Part]:
    yield _call(block, _id_of(block), _text(block.get("name")) or _type_of(block), place)


def _read_gemini_call(block: Mapping[str, Any], place: Place) -> Iterator[Part]:
    if isinstance(call := block["functionCall"], Mapping):
        yield _call(call, _id_of(call), _text(call.get("name")), (*place, "functionCall"))


def _id_of(block: Mapping[str, Any]) -> str:
    """By what a call and its result are known to belong together."""
    return next((id for name in _IDS if (id := _text(block.get(name)))), "")


def _read_result(block: Mapping[str, Any], place: Place) -> Iterator[Part]:
    """What came back of a call: its texts, or one without text, and what is no text."""
    field = "content" if "content" in block else "output"
    content, place = block.get(field), (*place, field)
    made = Part("result", "", _id_of(block), place=place, is_error=_failed(block))
    images: list[Part] = []
    blocks = content if isinstance(content, list | tuple) else () if content is None else (content,)
    for at, one in enumerate(blocks):
        where = (*place, at) if blocks is content else place
        text = one.get("text") if isinstance(one, Mapping) else one
        if isinstance(text, str):
            yield made._replace(text=text, place=where if text is one else (*where, "text"))
        elif isinstance(one, Mapping) and _type_of(one).endswith(_IMAGES):
            images += [part._replace(id=made.id) for part in _read_image(one, where)]
        else:
            yield made._replace(text=as_json(_undecorated(one)), place=where)
    if len(images) == len(blocks):
        yield made
    yield from images


def _read_gemini_result(block: Mapping[str, Any], place: Place) -> Iterator[Part]:
    result = block["functionResponse"]
    if not isinstance(result, Mapping):
        return
    given, place = result.get("response"), (*place, "functionResponse", "response")
    made = Part("result", as_json(given), _id_of(result), place=place)
    if isinstance(given, Mapping) and len(given) == 1:
        ((name, value),) = given.items()
        if isinstance(value, str):
            made = made._replace(text=value, place=(*place, name), is_error=name == "error")
    yield made


def _read_thoughts(block: Mapping[str, Any], place: Place) -> Iterator[Part]:
    for field in ("thinking", "text", "summary", "content"):
        said = block.get(field)
        if isinstance(said, str):
            yield Part("thinking", said, place=(*place, field))
        for at, one in enumerate(said) if isinstance(said, list) else ():
            if isinstance(one, Mapping) and isinstance(one.get("text"), str):
                yield Part("thinking", one["text"], place=(*place, field, at, "text"))


def _read_opencode(block: Mapping[str, Any], place: Place) -> Iterator[Part]:
    """OpenCode keeps a call and its result in one block."""
    state, id = block.get("state"), _text(block.get("callID"))
    if isinstance(state, Mapping):
        yield _call(state, id, _text(block.get("tool")), (*place, "state"))
        field = "output" if "output" in state else "error"
        if isinstance(said := state.get(field), str):
            where = (*place, "state", field)
            yield Part("result", said, id, place=where, is_error=field == "error")


def _read_compaction(block: Mapping[str, Any], place: Place) -> Iterator[Part]:
    """A window that the provider compacted; one without text or secret is left by a compaction that failed."""
    field = "content" if block.get("content") else "summary"
    if isinstance(text := block.get(field), str):
        yield Part("compaction", text, place=(*place, field))
    elif isinstance(sealed := block.get("encrypted_content"), str) and sealed:
        yield Part("compaction", "", id=_short_digest(sealed))


def _read_image(block: Mapping[str, Any], place: Place) -> Iterator[Part]:
    yield Part("image", _short_digest(as_json(_undecorated(block))), place=place)


def _short_digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


_IMAGES = ("image", "image_url", "screenshot", "document", "file", "audio", "inlineData", "fileData")  # fmt: skip
_Reader = Callable[[Mapping[str, Any], Place], Iterable[Part]]
_READERS: tuple[tuple[tuple[str, ...], _Reader], ...] = (
    (("thinking", "reasoning"), _read_thoughts),
    (("_call", "tool_use", "toolCall"), _read_call),
    (_RESULTS, _read_result),
    (("functionCall",), _read_gemini_call),
    (("functionResponse",), _read_gemini_result),
    (("tool",), _read_opencode),
    (("compaction", "compaction_summary"), _read_compaction),
    (_IMAGES, _read_image),
)
"""Who reads a block, by how its type ends."""


def _unknown(value: object) -> Part:
    return Part("unknown", as_json(_undecorated(value)))


def _undecorated(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: inner for name, inner in value.items() if name not in _DECORATION}
    return value


def as_json(value: object) -> str:
    """A value as JSON with sorted names; what cannot be written is equal to itself only."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=repr).decode()
    except (TypeError, ValueError, RecursionError):
        return f"unwritable {id(value)}"


def parse_arguments(arguments: object) -> object:
    """The arguments of a call as a value. A text that is no JSON stays a text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments


def _failed(block: Mapping[str, Any]) -> bool:
    return block.get("is_error") is True or block.get("status") in ("error", "failed")


def _type_of(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
