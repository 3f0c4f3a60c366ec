"""Formats: one line of a recorded session as an Entry, whichever program wrote it.

Claude Code   {"type": "user" | "assistant", "message": {…}}, {"type": "system", "subtype": "compact_boundary"}
Codex         {"type": "response_item", "payload": {…}}, {"type": "compacted", …}, {"type": "event_msg", …token_count}
pi            {"type": "message", "message": {…}}, {"type": "compaction", "summary": …}, {"type": "session", "id": …}
logs          a message a line; or a request a line: {"messages": […]} or {"input": […]}, with or without a response
Lines of other kinds are part of these files too and say nothing about the window: they give no entry. gemini.py and
opencode.py read those two agents.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from millgate.circles.reader import opening
from millgate.sessions.xray.usage import CallUsage, count_of, read_usage
from millgate.transcript.parts import read

Message = dict[str, Any]
Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a line says: a message, or a whole window (`snapshot`), or that the window was compacted."""

    message: Message | None = None
    snapshot: tuple[Message, ...] | None = None
    session: str = ""
    time: str = ""
    response: str = ""
    """The id of the model's message, if one message is written as several lines."""
    reported: int = 0
    """Tokens of the window as the provider counted them; 0 if the line does not tell."""
    compacted: bool = False
    usage: CallUsage | None = None
    """What the provider counted for the call that this line is the answer of."""
    request: Message | None = None
    """The request whole, if the line holds it."""


def entries_of(line: object) -> Iterator[Entry]:
    """What one line says; nothing for a line of another kind."""
    if not isinstance(line, dict):
        return
    kind, payload = line.get("type"), line.get("payload")
    if isinstance(payload, dict) and isinstance(kind, str):
        yield from _codex(kind, payload, text_of(line.get("timestamp")))
    elif isinstance(line.get("message"), dict) and kind in ("user", "assistant"):
        yield from _claude_code(line, line["message"])
    elif isinstance(line.get("message"), dict) and kind == "message":
        yield from _pi(line["message"], text_of(line.get("timestamp")))
    elif kind == "compaction" and isinstance(line.get("summary"), str):
        yield Entry(compacted=True, reported=count_of(line, "tokensBefore"))
        yield Entry({"role": "user", "content": line["summary"]})
    elif kind == "session" and isinstance(line.get("id"), str):
        yield Entry(session=line["id"])
    elif line.get("subtype") == "compact_boundary":
        before = line.get("compactMetadata")
        tokens = count_of(before, "preTokens") if isinstance(before, dict) else 0
        yield Entry(session=_session(line), compacted=True, reported=tokens)
    else:
        yield from _log(line)


def session_of(entry: Entry) -> str:
    """Which session an entry belongs to; a request in a log is known by how its conversation begins."""
    if entry.session or not entry.snapshot:
        return entry.session
    start = opening(entry.snapshot).encode("utf-8", "replace")
    return f"conversation {blake2b(start, digest_size=4).hexdigest()}"


def _claude_code(line: Line, message: Message) -> Iterator[Entry]:
    if line.get("isCompactSummary"):
        yield Entry(session=_session(line), compacted=True)
    yield Entry(
        message,
        session=_session(line),
        time=text_of(line.get("timestamp")),
        response=text_of(message.get("id")),
        reported=_input_tokens(message.get("usage")),
        usage=read_usage(
            message.get("usage"), model=message.get("model"), id=text_of(message.get("id"))
        ),
    )


def _session(line: Line) -> str:
    """Whose window it is; a subagent has one of its own."""
    name = text_of(line.get("sessionId"))
    return (
        f"{name}/{text_of(line.get('agentId')) or 'subagent'}" if line.get("isSidechain") else name
    )


def _pi(message: Message, time: str) -> Iterator[Entry]:
    usage = message.get("usage")
    reported = sum(count_of(usage, name) for name in ("input", "cacheRead", "cacheWrite"))
    yield Entry(
        message, time=time, reported=reported, usage=read_usage(usage, model=message.get("model"))
    )


def _codex(kind: str, payload: Message, time: str) -> Iterator[Entry]:
    if kind == "response_item":
        yield Entry(payload, time=time)
    elif kind == "session_meta":
        text = payload.get("instructions") or payload.get("base_instructions")
        text = text.get("text") if isinstance(text, dict) else text
        if isinstance(text, str):
            yield Entry({"role": "system", "content": text}, time=time)
    elif kind == "compacted":
        yield Entry(compacted=True, time=time)
        yield from (Entry(message, time=time) for message in _replacement(payload))
    elif kind == "event_msg":
        info = payload.get("info")
        if not isinstance(info, dict):
            yield Entry(time=time)
            return
        usage = info.get("last_token_usage")
        # the same count is written again when limits change; the total tells
        id = str(count_of(info.get("total_token_usage"), "total_tokens") or "")
        yield Entry(
            time=time, reported=count_of(usage, "input_tokens"), usage=read_usage(usage, id=id)
        )


class CodexReader:
    """One session of Codex, line by line.

    The base instructions stand in `session_meta`, and newer models get them as a message too: they count once.
    """

    def __init__(self) -> None:
        self._base = ""  # base instructions that stand in the window

    def entries(self, line: dict[str, Any]) -> list[Entry] | None:
        """What a line says; None if it is not Codex's, or cannot hold instructions."""
        kind = line.get("type")
        if not isinstance(line.get("payload"), dict):
            return None
        if kind == "compacted":
            self._base = ""
        if kind not in ("session_meta", "response_item"):
            return None
        return [self._once(entry, begins=kind == "session_meta") for entry in entries_of(line)]

    def _once(self, entry: Entry, *, begins: bool) -> Entry:
        message = entry.message or {}
        if message.get("role") not in ("system", "developer"):
            return entry
        text = "\n".join(part.text for part in read(message))
        if text and text == self._base:
            return Entry(time=entry.time)
        if begins:
            self._base = text
        return entry


def _replacement(payload: Message) -> Iterator[Message]:
    """The messages that stand in a compacted window."""
    history = payload.get("replacement_history")
    if isinstance(history, list):
        yield from (item for item in history if isinstance(item, dict))
    elif isinstance(text := payload.get("message"), str):
        yield {"role": "user", "content": text}


def _log(line: Message) -> Iterator[Entry]:
    request, answer = _request(line)
    if request is None:
        if isinstance(line.get("role"), str) or _is_item(line):
            yield Entry(line)
        return
    messages = [m for m in _message_list(request) if isinstance(m, dict)]
    system = request.get("system") or request.get("instructions")
    if system:
        messages.insert(0, {"role": "system", "content": system})
    usage = answer.get("usage") or line.get("usage")
    yield Entry(
        snapshot=tuple(messages),
        time=text_of(line.get("timestamp") or line.get("time")),
        reported=_input_tokens(usage),
        usage=read_usage(usage, model=request.get("model")),
        request=request,
    )
    yield from (Entry(message) for message in _response_messages(answer))


def _request(line: Message) -> tuple[Message | None, Message]:
    """The request in a line of a log, and the response beside it."""
    answer = line.get("response")
    if isinstance(answer, dict) and isinstance(answer.get("body"), dict):
        answer = answer["body"]
    for request in (line, line.get("request"), line.get("body"), line.get("kwargs")):
        if isinstance(request, dict) and _message_list(request):
            return request, answer if isinstance(answer, dict) else {}
    return None, {}


def _message_list(request: Message) -> list[Any]:
    for name in ("messages", "input"):
        if isinstance(found := request.get(name), list):
            return found
    return []


def _response_messages(answer: Message) -> Iterator[Message]:
    """The messages of a response, in the shape of any of the three APIs."""
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        if isinstance(message := choices[0].get("message"), dict):
            yield message
    elif isinstance(output := answer.get("output"), list):
        yield from (item for item in output if isinstance(item, dict))
    elif isinstance(answer.get("content"), list):
        yield {"role": "assistant", "content": answer["content"]}


def _is_item(line: Message) -> bool:
    kind = line.get("type")
    return isinstance(kind, str) and (
        kind.endswith(("_call", "_call_output")) or kind == "reasoning"
    )


def _input_tokens(usage: object) -> int:
    """All tokens that were sent, from a cache or not."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "prompt_tokens")  # fmt: skip
    return sum(count_of(usage, name) for name in names)


def kind_of_line(line: object) -> str:
    """What a line calls itself, for saying that it was passed over."""
    if not isinstance(line, dict):
        return f"a {type(line).__name__}"
    kinds = (line.get("type"), line.get("subtype"))
    return "/".join(kind[:40] for kind in kinds if isinstance(kind, str)) or "without a type"


def text_of(value: object) -> str:
    """A value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""
