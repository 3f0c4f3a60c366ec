"""Chat: OpenAI's chat completions, and all who speak like it.

Choice 0 is guarded; a request for several choices passes unwatched.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from millgate.errors import MillgateError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from millgate.guard.dialects.dialect import (
    JSON_FORMATS,
    Dialect,
    Event,
    Fields,
    OwnAnswer,
    Usage,
    mapping_of,
    pick,
)
from millgate.guard.error_codes import openai_error

REASONING_FIELDS = ("reasoning_content", "reasoning")  # as different servers name it
SAMPLING = ("temperature", "frequency_penalty", "presence_penalty", "top_p")
TEXTS = ("content", "tool_calls", *REASONING_FIELDS)  # what a delta says


class ChatDialect(Dialect):
    """Chat completions."""

    path: ClassVar[str] = "/v1/chat/completions"
    limits = ("max_tokens", "max_completion_tokens")
    sampling: ClassVar[Mapping[str, str]] = {name: name for name in SAMPLING}
    answers_fields = ("n", "best_of")
    done: ClassVar[bytes] = b"[DONE]"

    def __init__(self) -> None:
        self._first: Event = {}  # id, model and so on of the first chunk
        self._begun = False  # whether the client has seen the role

    # Requests

    def is_structured(self, fields: Fields) -> bool:
        return mapping_of(fields.get("response_format")).get("type") in JSON_FORMATS

    def answer_now(self, fields: Fields) -> dict[str, Any]:
        """Ask for the least effort, if the request names an effort."""
        asked = isinstance(fields.get("reasoning_effort"), str)
        return {"reasoning_effort": "low"} if asked else {}

    def ask_usage(self, fields: Fields) -> dict[str, Any]:
        options = fields.get("stream_options") or {}
        is_asked = not isinstance(options, Mapping) or options.get("include_usage")
        if is_asked or fields.get("stream") is not True:
            return {}
        return {"stream_options": {**options, "include_usage": True}}

    # The stream

    def read(self, event: Event) -> list[Piece]:
        """The parts of a chunk that carry text, each with a chunk of its own, then what is left of it."""
        if not self._first:
            self._first = {k: v for k, v in event.items() if k not in ("choices", "usage")}
        choices = event.get("choices") or []
        if len(choices) != 1 or choices[0].get("index", 0) != 0:
            return [Piece(EVENT, raw=event)]
        choice = choices[0]
        delta = choice.get("delta") or {}
        parts = _text_parts(delta)
        last = choice.get("finish_reason")
        self.ended = self.ended or bool(last)
        if len(parts) == 1 and not last:
            channel, text, call, _ = parts[0]
            return [Piece(channel, text, call=call, raw=event)]
        pieces = [
            Piece(channel, text, call=call, raw=self._chunk(event, choice, part))
            for channel, text, call, part in parts
        ]
        if last or not parts:
            left = {n: v for n, v in delta.items() if n not in TEXTS or not v}
            if parts:
                left.pop("role", None)
            rest = {**event, "choices": [{**choice, "delta": left}]}
            pieces.append(Piece(EVENT, raw=rest))
        return pieces

    def write(self, piece: Piece) -> list[Event]:
        """A chunk with the id of the first call; the role is sent only once."""
        raw = piece.raw
        if raw is None:
            return [self._new_chunk(piece)]
        if piece.channel == EVENT and self._repeats_role(raw):
            return []
        self._begun = True
        return [raw if self.calls <= 1 else {**raw, **self._first}]

    def finish(self, ended: str, said: str = "") -> list[Event]:
        words = [self._new_chunk(Piece(CONTENT, said))] if said else []
        return [*words, self._chunk({}, {"finish_reason": ended or "stop"}, {})]

    def event_name(self, event: Event) -> str:  # events have no names here
        return ""

    def is_error(self, event: Event) -> bool:
        return bool(event.get("error")) and not event.get("choices")

    def is_usage_event(self, event: Event) -> bool:
        return event.get("choices") == [] and isinstance(event.get("usage"), dict)

    def estimate_usage(self, input_tokens: int, output_tokens: int) -> Usage:
        return {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        }

    def usage_events(self, last: Event, fields: Fields) -> list[Event]:
        """A chunk without choices, if `stream_options` ask for usage."""
        if not mapping_of(fields.get("stream_options")).get("include_usage"):
            return []
        return [{**last, "choices": [], "usage": self.estimate_usage(0, 0)}]

    def _repeats_role(self, raw: Event) -> bool:
        """Whether an event of a later call only repeats who speaks."""
        choices = raw.get("choices") or []
        if not self._begun or self.calls <= 1 or not choices:
            return False
        return not choices[0].get("finish_reason") and choices[0].get("index", 0) == 0

    def _new_chunk(self, piece: Piece) -> Event:
        self._begun = True
        delta: Event = {"content": piece.text}
        if piece.channel == REASONING:
            delta = {REASONING_FIELDS[0]: piece.text}
        elif piece.channel == TOOL:
            delta = {"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]}
        return self._chunk({}, {}, delta)

    def _chunk(self, event: Event, choice: Event, delta: Event) -> Event:
        made = {"index": 0, "finish_reason": None, **choice, "delta": delta}
        if delta:
            made["finish_reason"] = None
        return {"object": "chat.completion.chunk", **self._first, **event, "choices": [made]}

    # Whole answers

    def pieces(self, answer: Event) -> list[Piece]:
        match answer:
            case {"choices": [{"message": {**message}}]}:
                pass
            case _:
                return []
        found = [
            Piece(channel, text)
            for channel, names in ((REASONING, REASONING_FIELDS), (CONTENT, ("content",)))
            for text in (next((message[n] for n in names if message.get(n)), None),)
            if isinstance(text, str)
        ]
        calls = message.get("tool_calls")
        for at, call in enumerate(calls if isinstance(calls, list) else ()):
            match call:
                case {"function": {"arguments": str(text)}}:
                    found.append(Piece(TOOL, text, call=at, raw=call))
        return found

    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        choice = answer["choices"][0]
        message = dict(choice["message"])
        if texts[CONTENT] or message.get("content"):
            message["content"] = texts[CONTENT]
        name = next((n for n in REASONING_FIELDS if message.get(n)), REASONING_FIELDS[0])
        if texts[REASONING]:
            message[name] = texts[REASONING]
        reason = choice.get("finish_reason")
        called = message.get("tool_calls")
        if isinstance(called, list) and len(called) > calls:
            message["tool_calls"], reason = called[:calls], "tool_calls"
        made = {**choice, "message": message, "finish_reason": reason}
        same = pick(first, "id", "created", "model")
        return {**answer, "choices": [made], **same}

    # Answers of our own

    def own_answer(self, answer: OwnAnswer) -> Event:
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            **self._own_head(answer, "chat.completion"),
            "choices": [choice],
            "usage": self.estimate_usage(0, 0),
        }

    def own_events(self, answer: OwnAnswer, fields: Fields) -> list[Event]:
        head = self._own_head(answer, "chat.completion.chunk")
        said = self._chunk(head, {}, {"role": "assistant", "content": answer.text})
        last = self._chunk(head, {"finish_reason": "stop"}, {})
        return [said, last, *self.usage_events(last, fields)]

    def _own_head(self, answer: OwnAnswer, kind: str) -> Event:
        id, created = f"chatcmpl-{answer.id}", answer.created
        return {"id": id, "object": kind, "created": created, "model": answer.model}

    # Errors

    def error(self, error: MillgateError, param: str | None = None) -> Event:
        return openai_error(error, param)


def _text_parts(delta: Event) -> list[tuple[str, str, int, Event]]:
    """What carries text in a delta: channel, text, call, and the delta that says only this."""
    parts: list[tuple[str, str, int, Event]] = []
    for name in REASONING_FIELDS:
        if isinstance(text := delta.get(name), str) and text:
            parts.append((REASONING, text, 0, {name: text}))
            break
    if isinstance(text := delta.get("content"), str) and text:
        parts.append((CONTENT, text, 0, {"content": text}))
    for call in delta.get("tool_calls") or ():
        text = str((call.get("function") or {}).get("arguments") or "")
        parts.append((TOOL, text, int(call.get("index") or 0), {"tool_calls": [call]}))
    if parts and delta.get("role"):
        parts[0][3]["role"] = delta["role"]
    return parts
