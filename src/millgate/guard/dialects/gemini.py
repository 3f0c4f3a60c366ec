"""Gemini: Google's generateContent and streamGenerateContent.

Model and method stand in the path. The conversation is `contents`, each with parts. For the rest of the guard a content
becomes a message with blocks, each of which keeps the part that it was made of, so that what nobody changed goes up as
it came. A function call comes whole, in one part. A stream without `alt=sse` is a JSON array and passes unwatched.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

import orjson

from millgate.errors import MillgateError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from millgate.guard.dialects.dialect import (
    Dialect,
    Event,
    Fields,
    InvalidRequest,
    OwnAnswer,
    pick,
)
from millgate.guard.error_codes import status_of
from millgate.guard.resume import Message

LEAST_THINKING = 128  # tokens: the least that every model of the 2.5 family takes
IDENTITY = ("modelVersion", "responseId")
STATUSES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "RESOURCE_EXHAUSTED", 403: "PERMISSION_DENIED",
    404: "NOT_FOUND", 413: "INVALID_ARGUMENT", 415: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip
_target = re.compile(r"/v1(?:beta|alpha)?/models/([^/]+):(generateContent|streamGenerateContent)")


class GeminiDialect(Dialect):
    """Gemini."""

    path: ClassVar[str] = "/v1beta/models/{model}:{method}"
    key_header: ClassVar[str] = "x-goog-api-key"
    messages_field = "contents"
    system_fields = ("systemInstruction", "system_instruction")
    config_field: ClassVar[str] = "generationConfig"
    limits = ("maxOutputTokens",)
    sampling: ClassVar[Mapping[str, str]] = {
        "temperature": "temperature",
        "top_p": "topP",
        "presence_penalty": "presencePenalty",
        "frequency_penalty": "frequencyPenalty",
    }
    answers_fields = ("candidateCount",)
    usage_field = "usageMetadata"
    usage_names = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")

    def __init__(self) -> None:
        self._model, self._streams, self._is_sse = "", False, False
        self._tools = 0  # function calls in the current one
        self._first: Event = {}  # model and id of the first call

    # Requests

    @classmethod
    def serves(cls, path: str) -> bool:
        return _target.fullmatch(path) is not None

    @classmethod
    def owns(cls, path: str) -> bool:
        return path.startswith(("/v1beta/", "/v1alpha/")) or cls.serves(path)

    def read_target(self, path: str, query: bytes) -> None:
        """The model, and whether the answer is streamed, and how."""
        if found := _target.fullmatch(unquote(path)):
            self._model, self._streams = found[1], found[2] == "streamGenerateContent"
        self._is_sse = parse_qs(query.decode("latin-1")).get("alt", [""])[-1] == "sse"

    def model(self, fields: Fields) -> object:
        return self._model

    def streams(self, fields: Fields) -> bool:
        return self._streams

    def conversation(self, fields: Fields) -> tuple[Message, ...]:
        """`contents` as messages with blocks."""
        contents = fields.get("contents")
        contents = [contents] if isinstance(contents, dict) else contents
        if not isinstance(contents, list) or not contents:
            raise InvalidRequest(
                "contents must be a list of at least one content", param="contents"
            )
        for at, content in enumerate(contents):
            if not isinstance(content, dict) or not isinstance(content.get("parts"), list | None):
                place = f"contents[{at}]"
                raise InvalidRequest(f"{place} must be an object with parts", param=place)
        return tuple(map(_as_message, contents))

    def replace_conversation(self, messages: Sequence[Message]) -> dict[str, Any]:
        return {"contents": list(map(_as_content, messages))}

    def why_unwatched(self, fields: Fields) -> str:
        """Several candidates cannot be asked for again one by one, and an array is no stream of events."""
        if self._streams and not self._is_sse:
            return "alt is not sse: a JSON array cannot be watched while it comes"
        return super().why_unwatched(fields)

    def is_structured(self, fields: Fields) -> bool:
        wanted = self.config(fields).get("responseMimeType")
        return isinstance(wanted, str) and wanted not in ("", "text/plain")

    def answer_now(self, fields: Fields) -> dict[str, Any]:
        """Ask for the least thinking, if the request configures it."""
        thinking = self.config(fields).get("thinkingConfig")
        if not isinstance(thinking, Mapping):
            return {}
        least = {"thinkingLevel": "low"} if "thinkingLevel" in thinking else {"thinkingBudget": LEAST_THINKING}  # fmt: skip
        return {"thinkingConfig": {**thinking, **least}}

    # The stream

    def restart(self) -> None:
        super().restart()
        self._tools = 0

    def read(self, event: Event) -> list[Piece]:
        """The parts that carry text or a call, each with an event of its own, then what is left."""
        if not self._first:
            self._first = pick(event, *IDENTITY)
        candidates = event.get("candidates") or []
        if len(candidates) != 1:
            return [Piece(EVENT, raw=event)]
        candidate = candidates[0]
        parts = _parts(candidate.get("content"))
        last = bool(candidate.get("finishReason"))
        self.ended = self.ended or last
        if len(parts) == 1 and not last:
            return [self._piece(parts[0], event)]
        bare = {name: value for name, value in event.items() if name != "usageMetadata"}
        pieces = [
            self._piece(
                part,
                {**bare, "candidates": [_candidate(pick(candidate, "index"), candidate, [part])]},
            )
            for part in parts
        ]
        if last or not parts:
            rest = _candidate(candidate, candidate, [])
            pieces.append(Piece(EVENT, raw={**event, "candidates": [rest]}))
        return pieces

    def _piece(self, part: Event, raw: Event) -> Piece:
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._tools += 1
            return Piece(TOOL, orjson.dumps(call.get("args")).decode(), call=self._tools, raw=raw)
        text = part.get("text")
        if not isinstance(text, str) or not text:
            return Piece(EVENT, raw=raw)
        return Piece(REASONING if part.get("thought") else CONTENT, text, raw=raw)

    def write(self, piece: Piece) -> list[Event]:
        """An event with model and id of the first call."""
        if piece.raw is None:
            part: Event = {"text": piece.text}
            if piece.channel == REASONING:
                part["thought"] = True
            return [self._event([part])]
        return [piece.raw if self.calls <= 1 else {**piece.raw, **self._first}]

    def finish(self, ended: str, said: str = "") -> list[Event]:
        last = self._event([{"text": said}] if said else [], finishReason="STOP")
        return [{**last, "usageMetadata": self.estimate_usage(0, 0)}]

    def _event(self, parts: list[Event], **end: str) -> Event:
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, **end}
        return {"candidates": [candidate], **self._first}

    def event_name(self, event: Event) -> str:  # events have no names here
        return ""

    # Whole answers

    def pieces(self, answer: Event) -> list[Piece]:
        candidates = answer.get("candidates")
        if not isinstance(candidates, list) or len(candidates) != 1:
            return []
        self._tools = 0
        found = [self._piece(part, part) for part in _parts(candidates[0].get("content"))]
        return [piece for piece in found if piece.channel != EVENT]

    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        candidate = answer["candidates"][0]
        parts = _parts(candidate.get("content"))
        used = [part for part in parts if "functionCall" in part]
        others = [part for part in parts if not {"functionCall", "text"} & part.keys()]
        thought = [{"text": texts[REASONING], "thought": True}] if texts[REASONING] else []
        said = [{"text": texts[CONTENT]}] if texts[CONTENT] else []
        content = {"parts": [*thought, *said, *others, *used[:calls]], "role": "model"}
        made = {**candidate, "content": content}
        return {**answer, "candidates": [made], **pick(first, *IDENTITY)}

    # Answers of our own

    def own_answer(self, answer: OwnAnswer) -> Event:
        self._first = {"modelVersion": answer.model, "responseId": answer.id}
        (whole,) = self.finish("stop", answer.text)
        return whole

    def own_events(self, answer: OwnAnswer, fields: Fields) -> list[Event]:
        return [self.own_answer(answer)]

    # Errors

    def error(self, error: MillgateError, param: str | None = None) -> Event:
        code = status_of(error)
        status = STATUSES.get(code, "INTERNAL")
        return {"error": {"code": code, "message": str(error), "status": status}}


def _parts(content: object) -> list[Event]:
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _candidate(kept: Event, candidate: Event, parts: list[Event]) -> Event:
    """What is kept of a candidate, with some of its parts."""
    return {**kept, "content": {**(candidate.get("content") or {}), "parts": parts}}


def _as_message(content: Event) -> Message:
    role = "assistant" if content.get("role") == "model" else "user"
    parts = content.get("parts") or []
    return {"role": role, "content": list(map(_as_block, parts)), "of": content}


def _as_block(part: object) -> Message:
    """A part as a block as Anthropic's messages have them, which the guard reads; `part` is what it was made of."""
    match part:
        case {"functionCall": {**call}}:
            id, name = call.get("id") or call.get("name"), call.get("name")
            return {"type": "tool_use", "id": id, "name": name, "input": call.get("args"), "part": part}  # fmt: skip
        case {"functionResponse": {**result}}:
            id = result.get("id") or result.get("name")
            text = _result_text(result.get("response"))
            return {"type": "tool_result", "tool_use_id": id, "content": text, "part": part}
        case {"text": str(text), **more} if not more.get("thought"):
            return {"type": "text", "text": text, "part": part}
    return {"type": "thinking" if isinstance(part, dict) and part.get("thought") else "other", "part": part}  # fmt: skip


def _result_text(response: object) -> str:
    """A result as text: its only value if that is a text, else JSON."""
    if isinstance(response, dict) and len(response) == 1:
        (value,) = response.values()
        if isinstance(value, str):
            return value
    return orjson.dumps(response).decode()


def _as_content(message: Message) -> Event:
    """A message as a content: the parts as they came, blocks of ours as new ones."""
    said = message["content"]
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    role = "model" if message["role"] == "assistant" else "user"
    return {"role": role, **message.get("of", {}), "parts": list(map(_as_part, blocks))}


def _as_part(block: Message) -> Any:  # noqa: ANN401  # a part as the client sent it
    if "part" not in block:
        return {"text": block["text"]}
    part = block["part"]
    if block["type"] == "text":
        return {**part, "text": block["text"]}
    if block["type"] != "tool_result":
        return part
    result = part["functionResponse"]
    response, said = result.get("response"), block["content"]
    text = _result_text(response)
    if said == text or not isinstance(response, dict):
        return part
    if said.startswith(text):
        changed = {**response, "note": said.removeprefix(text).strip()}
    elif list(response.values()) == [text]:  # its only text was folded
        changed = dict.fromkeys(response, said)
    else:
        return part
    return {**part, "functionResponse": {**result, "response": changed}}
