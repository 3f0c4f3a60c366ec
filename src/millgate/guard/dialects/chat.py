"""Chat: OpenAI's chat completions, and all who speak like it; and text completions, the API before chat.

Choice 0 is guarded; a request for several choices passes unwatched. In text completions there are no roles, so an
answer goes on by prefill: the prompt with the text so far behind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from millgate.errors import MillgateError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from millgate.guard.dialects.dialect import (
    JSON_FORMATS,
    Dialect,
    Event,
    Fields,
    OwnAnswer,
    mapping_of,
    pick,
)
from millgate.guard.error_codes import openai_error
from millgate.guard.policy import Resume
from millgate.guard.resume import Message

REASONING_FIELDS = ("reasoning_content", "reasoning")  # as different servers name it
SAMPLING = ("temperature", "frequency_penalty", "presence_penalty", "top_p")
TEXTS = ("content", "tool_calls", *REASONING_FIELDS)  # what a delta says


class ChatDialect(Dialect):
    """Chat completions."""

    path: ClassVar[str] = "/v1/chat/completions"
    limits = ("max_tokens", "max_completion_tokens")
    sampling: ClassVar[Mapping[str, str]] = {name: name for name in SAMPLING}
    answers_fields = ("n", "best_of")
    usage_names = ("prompt_tokens", "completion_tokens", "total_tokens")
    done: ClassVar[bytes] = b"[DONE]"

    _kinds: ClassVar[Sequence[str]] = ("chat.completion", "chat.completion.chunk", "chatcmpl")
    """The `object` of a whole answer and of a chunk, and how our ids begin."""
    _said: ClassVar[str] = "delta"
    """The field of a chunk's choice for what it says."""

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
        said = choice.get(self._said) or {}
        delta = {"content": said} if isinstance(said, str) else said
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
            rest = {
                **event,
                "choices": [{**choice, self._said: left if left or self._said == "delta" else ""}],
            }
            pieces.append(Piece(EVENT, raw=rest))
        return pieces

    def write(self, piece: Piece) -> list[Event]:
        """A chunk with the id of the first call; the role is sent only once."""
        raw = piece.raw
        if raw is None:
            raw = self._new_chunk(piece)
        elif piece.channel == EVENT and self._repeats_role(raw):
            return []
        self._begun = True
        return [raw if self.calls <= 1 else {**raw, **self._first}]

    def finish(self, ended: str, said: str = "") -> list[Event]:
        words = [self._new_chunk(Piece(CONTENT, said))] if said else []
        return [*words, self._chunk({}, {"finish_reason": ended or "stop"}, {})]

    def event_name(self, event: Event) -> str:  # events have no names here
        return ""

    def is_usage_event(self, event: Event) -> bool:
        return event.get("choices") == [] and isinstance(event.get("usage"), dict)

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
        delta: Event = {"content": piece.text}
        if piece.channel == REASONING:
            delta = {REASONING_FIELDS[0]: piece.text}
        elif piece.channel == TOOL:
            delta = {"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]}
        return self._chunk({}, {}, delta)

    def _chunk(self, event: Event, choice: Event, delta: Event) -> Event:
        said = delta if self._said == "delta" else delta.get("content", "")
        made = {"index": 0, "finish_reason": None, **choice, self._said: said}
        if delta:
            made["finish_reason"] = None
        return {"object": self._kinds[1], **self._first, **event, "choices": [made]}

    # Whole answers

    def pieces(self, answer: Event) -> list[Piece]:
        match answer:
            case {"choices": [{"message": {**message}}]}:
                pass
            case _:
                return []
        thought = next((message[n] for n in REASONING_FIELDS if message.get(n)), None)
        said = ((REASONING, thought), (CONTENT, message.get("content")))
        found = [Piece(channel, text) for channel, text in said if text and isinstance(text, str)]
        calls = message.get("tool_calls")
        for at, call in enumerate(calls if isinstance(calls, list) else ()):
            match call:
                case {"function": {"arguments": str(text)}}:
                    found.append(Piece(TOOL, text, call=at, raw=call))
        return found

    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        choice = dict(answer["choices"][0])
        choice["message"] = message = dict(choice["message"])
        if texts[CONTENT] or message.get("content"):
            message["content"] = texts[CONTENT]
        if texts[REASONING]:
            name = next((n for n in REASONING_FIELDS if message.get(n)), REASONING_FIELDS[0])
            message[name] = texts[REASONING]
        called = message.get("tool_calls")
        if isinstance(called, list) and len(called) > calls:
            message["tool_calls"], choice["finish_reason"] = called[:calls], "tool_calls"
        return {**answer, "choices": [choice], **pick(first, "id", "created", "model")}

    # Answers of our own

    def own_answer(self, answer: OwnAnswer) -> Event:
        said = {"message": {"role": "assistant", "content": answer.text, "refusal": None}}
        return self._own(answer, self._kinds[0], said)

    def own_events(self, answer: OwnAnswer, fields: Fields) -> list[Event]:
        self._first = self._own_head(answer, self._kinds[1])
        said = self._chunk({}, {}, {"role": "assistant", "content": answer.text})
        last = self._chunk({}, {"finish_reason": "stop"}, {})
        return [said, last, *self.usage_events(last, fields)]

    def _own(self, answer: OwnAnswer, kind: str, said: Event) -> Event:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": "stop"}
        head = self._own_head(answer, kind)
        return {**head, "choices": [choice], "usage": self.estimate_usage(0, 0)}

    def _own_head(self, answer: OwnAnswer, kind: str) -> Event:
        id, created = f"{self._kinds[2]}-{answer.id}", answer.created
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


class CompletionsDialect(ChatDialect):
    """Text completions: a prompt in, its continuation out; all else is as in chat."""

    path: ClassVar[str] = "/v1/completions"
    operation: ClassVar[str] = "text_completion"
    resume: ClassVar[Resume] = "prefill"
    _kinds = ("text_completion", "text_completion", "cmpl")
    _said = "text"

    def conversation(self, fields: Fields) -> tuple[Message, ...]:
        """The prompt as a user message; none if the prompt is not a single text."""
        prompt = fields.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        return ({"role": "user", "content": prompt},) if isinstance(prompt, str) else ()

    def replace_conversation(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The prompt, followed by the answer so far."""
        return {"prompt": "".join(str(message["content"]) for message in messages)}

    def why_unwatched(self, fields: Fields) -> str:
        """What is not one continuation of one text cannot be resumed."""
        if not self.conversation(fields):
            return "prompt is not one text: several prompts, or tokens, cannot be resumed"
        for name in ("echo", "suffix"):
            if fields.get(name):
                return f"{name} is set: such an answer cannot be resumed"
        return super().why_unwatched(fields)

    def _chunk(self, event: Event, choice: Event, delta: Event) -> Event:
        return super()._chunk(event, {"logprobs": None, **choice}, delta)

    def pieces(self, answer: Event) -> list[Piece]:
        match answer:
            case {"choices": [{"text": str(text)}]}:
                return [Piece(CONTENT, text)]
        return []

    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        made = {**answer["choices"][0], "text": texts[CONTENT]}
        return {**answer, "choices": [made], **pick(first, "id", "created", "model")}

    def own_answer(self, answer: OwnAnswer) -> Event:
        return self._own(answer, self._kinds[0], {"text": answer.text})
