"""Formats: one line of a recorded session as entries, whichever program wrote it.

Claude Code   {"type": "user" | "assistant", "message": {…}}, {"type": "system", "subtype": "compact_boundary"}
Codex         {"type": "response_item", "payload": {…}}, {"type": "compacted", …}, {"type": "event_msg", …token_count}
pi            {"type": "message", "message": {…}}, {"type": "compaction", "summary": …}, {"type": "session", "id": …}
Gemini CLI    {"projectHash", "sessionId", …}, {"type": "user" | "gemini", …}, {"$set": {"messages": […]}}
OpenCode      rows of its SQLite database: a message has its role and its usage; its parts have what was said and done
logs          a message a line; or a request a line: {"messages": […]} or {"input": […]}, with or without a response
Lines of other kinds are part of these files too and say nothing about the window: they give no entry.

Usage stands in the spelling of any provider. What was read from its cache stands within the input at OpenAI, Codex
and Gemini, and beside it elsewhere.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from millgate.circles.reader import opening
from millgate.sessions.prompt_cache.judgment import CacheCounts
from millgate.text.bounded_json import loads
from millgate.transcript.parts import read

Message = dict[str, Any]
Line = Mapping[str, Any]

_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "input")
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "output")
_WITHIN = ("cached_input_tokens", "cachedContentTokenCount", "cached", "cached_tokens")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_SAID = (
    "text",
    "reasoning",
    "tool",
)  # OpenCode's parts; others tell of steps, snapshots and patches
_OPENCODE = """
    SELECT message.session_id, message.id, message.data, part.data FROM message
    LEFT JOIN part ON part.message_id = message.id
    ORDER BY message.session_id, message.time_created, message.id, part.id
"""


@dataclass(frozen=True, slots=True)
class CallUsage:
    """What one call took in and gave out, by the provider's count."""

    counts: CacheCounts
    output: int = 0
    model: str = ""
    is_long: bool = False
    """Whether it wrote to a cache that lives for an hour."""
    id: str = ""
    """By what the same call is known if several lines report it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a line says: a message, or a whole window (`snapshot`), or that the window was compacted."""

    message: Message | None = None
    snapshot: tuple[Message, ...] | None = None
    session: str = ""
    time: str = ""
    response: str = ""
    """The id of the model's message, if one message is written as several lines."""
    compacted: int | None = None
    """The tokens of a window that was compacted, 0 if the line does not tell; None: it was not."""
    usage: CallUsage | None = None
    """What the provider counted for the call that this line is the answer of."""
    request: Message | None = None
    """The request whole, if the line holds it."""


def read_usage(usage: object, *, model: object = "", id: str = "") -> CallUsage | None:
    """The usage of one call; None if nothing was counted, as of an answer that the agent made up itself."""
    if not isinstance(usage, dict) or model == "<synthetic>":
        return None
    cache, kinds = usage.get("cache"), usage.get("cache_creation")
    within = _count(usage, *_WITHIN) or max(_count(usage.get(name), *_WITHIN) for name in _DETAILS)
    read = _count(usage, "cache_read_input_tokens", "cacheRead") or _count(cache, "read")
    written = _count(usage, "cache_creation_input_tokens", "cacheWrite") or _count(cache, "write")
    fresh = max(0, _count(usage, *_INPUT) - within)
    is_automatic = not (usage.keys() & {"cache_creation_input_tokens", "cache", "cacheWrite"})
    counts = CacheCounts(within + read, written, fresh, is_automatic)
    if not counts.total:
        return None
    is_long = _count(kinds, "ephemeral_1h_input_tokens") > _count(kinds, "ephemeral_5m_input_tokens")  # fmt: skip
    return CallUsage(counts, _count(usage, *_OUTPUT), text_of(model)[:200], is_long, id)


def session_of(entry: Entry) -> str:
    """Which session an entry belongs to; a request in a log is known by how its conversation begins."""
    if entry.session or not entry.snapshot:
        return entry.session
    start = opening(entry.snapshot).encode("utf-8", "replace")
    return f"conversation {blake2b(start, digest_size=4).hexdigest()}"


class LineReader:
    """Reads the lines of one file.

    Gemini CLI writes a message again when it grows, and the result of a call once more in a message of its own. Codex
    writes base instructions into `session_meta`, and for newer models as a message too. Each counts once.
    """

    def __init__(self) -> None:
        self._gemini_session = ""
        self._known: set[tuple[str, str]] = set()  # parts of Gemini's messages that were read
        self._base = ""  # Codex's base instructions that stand in the window

    def read(self, line: object) -> list[Entry]:
        """What a line says; nothing for a line of another kind."""
        if not isinstance(line, dict):
            return []
        if isinstance(line.get("projectHash"), str) and isinstance(line.get("sessionId"), str):
            self._gemini_session, self._known = line["sessionId"], set()
        if self._gemini_session:
            return list(self._read_gemini(line))
        if isinstance(payload := line.get("payload"), dict):
            return list(self._read_codex(text_of(line.get("type")), payload, _time(line)))
        return list(_read_message(line) or _read_log(line))

    def _read_codex(self, kind: str, payload: Message, time: str) -> Iterator[Entry]:
        if kind == "response_item":
            is_instruction = payload.get("role") in ("system", "developer")
            is_known = is_instruction and self._base and self._base == _words_of(payload)
            yield Entry(None if is_known else payload, time=time)
        elif kind == "session_meta":
            text = payload.get("instructions") or payload.get("base_instructions")
            text = text.get("text") if isinstance(text, dict) else text
            if isinstance(text, str) and text != self._base:
                self._base = text
                yield Entry({"role": "system", "content": text}, time=time)
        elif kind == "compacted":
            self._base = ""
            yield Entry(compacted=0, time=time)
            summary = [{"role": "user", "content": text_of(payload.get("message"))}]
            history = payload.get("replacement_history", summary)
            yield from (Entry(item, time=time) for item in _dicts(history))
        elif kind == "event_msg":
            yield Entry(time=time, usage=_codex_usage(payload.get("info")))

    def _read_gemini(self, line: Message) -> Iterator[Entry]:
        changed = line.get("$set")
        whole = changed if isinstance(changed, dict) else line
        if whole is changed or "projectHash" in line:
            yield Entry(
                session=self._gemini_session
            )  # also if nothing is new in it: it was understood
            for message in _dicts(whole.get("messages")):
                yield from self._read_gemini_message(message)
        elif line.get("type") in ("user", "gemini"):
            yield from self._read_gemini_message(line)

    def _read_gemini_message(self, line: Message) -> Iterator[Entry]:
        session, id, time = self._gemini_session, text_of(line.get("id")), _time(line)
        content, calls = _gemini_parts(line.get("content")), _dicts(line.get("toolCalls"))
        said: list[Message] = [
            {"type": "thinking", "thinking": words}
            for thought in _dicts(line.get("thoughts"))
            if (words := " ".join(filter(None, map(text_of, (thought.get("subject"), thought.get("description"))))))
            and self._is_new(id, f"thought {words}")
        ]  # fmt: skip
        said += [
            {"type": "text", "text": words}
            for part in content
            if (words := text_of(part.get("text"))) and self._is_new(id, f"text {words}")
        ]
        said += [
            {"functionCall": call}
            for call in calls
            if self._is_new(text_of(call.get("id")), "call")
        ]
        answers = [
            *content,
            *(part for call in calls for part in _gemini_parts(call.get("result"))),
        ]
        results = list(self._read_gemini_results(answers))
        yield Entry(session=session)
        if line.get("type") == "user":
            results = [*said, *results]
        elif line.get("type") == "gemini" and (said or self._is_new(id, "turn")):
            usage = read_usage(line.get("tokens"), model=line.get("model"), id=id)
            yield Entry({"role": "assistant", "content": said}, session=session, time=time, response=id, usage=usage)  # fmt: skip
        if results:
            yield Entry({"role": "user", "content": results}, session=session, time=time)

    def _read_gemini_results(self, parts: list[Message]) -> Iterator[Message]:
        for part in parts:
            response = part.get("functionResponse")
            if isinstance(response, dict) and self._is_new(id := text_of(response.get("id")), "result"):  # fmt: skip
                given = response.get("response")
                shown = given.get("output", given) if isinstance(given, dict) else given
                yield {"type": "tool_result", "tool_use_id": id, "content": shown}

    def _is_new(self, id: str, part: str) -> bool:
        before = len(self._known)
        self._known.add((id, part))
        return len(self._known) > before


def _codex_usage(info: object) -> CallUsage | None:
    """The usage of the last call. It is written again when limits change; the total tells."""
    if not isinstance(info, dict):
        return None
    total = _count(info.get("total_token_usage"), "total_tokens")
    return read_usage(info.get("last_token_usage"), id=str(total or ""))


def _read_message(line: Message) -> list[Entry]:
    """A line of Claude Code or pi."""
    kind, message, session = line.get("type"), line.get("message"), _session(line)
    if isinstance(message, dict) and kind in ("user", "assistant", "message"):
        id = text_of(message.get("id"))
        usage = read_usage(message.get("usage"), model=message.get("model"), id=id)
        said = Entry(message, session=session, time=_time(line), response=id, usage=usage)
        return [Entry(session=session, compacted=0), said] if line.get("isCompactSummary") else [said]  # fmt: skip
    if line.get("subtype") == "compact_boundary":
        return [Entry(session=session, compacted=_count(line.get("compactMetadata"), "preTokens"))]
    if kind == "compaction" and isinstance(line.get("summary"), str):
        summary = {"role": "user", "content": line["summary"]}
        return [Entry(compacted=_count(line, "tokensBefore")), Entry(summary)]
    is_head = kind == "session" and isinstance(line.get("id"), str)
    return [Entry(session=line["id"])] if is_head else []


def _session(line: Line) -> str:
    """Whose window it is; a subagent has one of its own."""
    name = text_of(line.get("sessionId"))
    agent = text_of(line.get("agentId")) or "subagent"
    return f"{name}/{agent}" if line.get("isSidechain") else name


def _read_log(line: Message) -> Iterator[Entry]:
    answer = line.get("response")
    if isinstance(answer, dict) and isinstance(answer.get("body"), dict):
        answer = answer["body"]
    answer = answer if isinstance(answer, dict) else {}
    for request in (line, line.get("request"), line.get("body"), line.get("kwargs")):
        if not isinstance(request, dict):
            continue
        found = request.get("messages") or request.get("input")
        if not isinstance(found, list):
            continue
        messages = _dicts(found)
        if system := request.get("system") or request.get("instructions"):
            messages.insert(0, {"role": "system", "content": system})
        usage = read_usage(answer.get("usage") or line.get("usage"), model=request.get("model"))
        yield Entry(snapshot=tuple(messages), time=_time(line), usage=usage, request=request)
        yield from map(Entry, _messages_of(answer))
        return
    kind = text_of(line.get("type"))
    if isinstance(line.get("role"), str) or kind.endswith(("_call", "_call_output")) or kind == "reasoning":  # fmt: skip
        yield Entry(line)


def _messages_of(answer: Message) -> list[Message]:
    """The messages of a response, in the shape of any of the three APIs."""
    if choices := _dicts(answer.get("choices")):
        return _dicts([choices[0].get("message")])
    if isinstance(answer.get("content"), list):
        return [{"role": "assistant", "content": answer["content"]}]
    return _dicts(answer.get("output"))


def read_opencode(path: Path) -> Iterator[Entry]:
    """The messages of every session of a database, which stays as it is; sqlite3.Error if it is not OpenCode's."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        for (session, id), rows in groupby(database.execute(_OPENCODE), key=lambda row: row[:2]):
            given = list(rows)
            data, parts = _parse(given[0][2]), [_parse(row[3]) for row in given]
            yield from _read_opencode(text_of(session), id, data, parts)


def _read_opencode(session: str, id: str, data: Message, parts: list[Message]) -> Iterator[Entry]:
    content = [part for part in parts if part.get("type") in _SAID]
    if data.get("role") == "user":
        yield Entry({"role": "user", "content": content}, session=session)
        return
    if data.get("summary") is True:
        yield Entry(session=session, compacted=0)
    times = data.get("time")
    created = times.get("created") if isinstance(times, dict) else None  # in milliseconds
    time = ""
    if isinstance(created, int) and 0 < created < 1 << 42:  # the year 2109
        time = datetime.fromtimestamp(created / 1000, UTC).isoformat()
    usage = read_usage(data.get("tokens"), model=data.get("modelID"), id=id)
    yield Entry({"role": "assistant", "content": content}, session=session, time=time, response=id, usage=usage)  # fmt: skip


def _parse(text: object) -> Message:
    try:
        found = loads(text.encode()) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {}


def kind_of_line(line: object) -> str:
    """What a line calls itself, for saying that it was passed over."""
    if not isinstance(line, dict):
        return f"a {type(line).__name__}"
    kinds = (line.get("type"), line.get("subtype"))
    return "/".join(kind[:40] for kind in kinds if isinstance(kind, str)) or "without a type"


def _time(line: Line) -> str:
    return text_of(line.get("timestamp") or line.get("time"))


def _words_of(message: Message) -> str:
    return "\n".join(part.text for part in read(message))


def text_of(value: object) -> str:
    """A value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def _dicts(values: object) -> list[Message]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def _gemini_parts(content: object) -> list[Message]:
    return [{"text": content}] if isinstance(content, str) else _dicts(content)


def _count(values: object, *names: str) -> int:
    """The first count among some names; 0 if there is none."""
    found = (values.get(name) for name in names) if isinstance(values, dict) else ()
    return next((n for n in found if isinstance(n, int) and 0 < n < 1 << 40), 0)
