"""Messages: Anthropic's messages.

The client's stream is a row of blocks. After a rollback the new call begins with blocks of its own: a text that
continues the text still open at the client is merged into it, any other block gets the next free index, and the second
message_start is left out.

The API refuses a thinking block that it has not signed, in every later request. So one that was severed never ends, and
agents that take blocks at their end have none. A client that has it all the same sends it back; it is known by its
digest then, and left out on the way up. Services that sign nothing get theirs as they were.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson

from millgate.errors import MillgateError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from millgate.guard.dialects.dialect import (
    Dialect,
    Event,
    Fields,
    OwnAnswer,
    Usage,
    digest,
    mapping_of,
    pick,
)
from millgate.guard.error_codes import status_of
from millgate.guard.resume import Message

DELTAS = {
    "text_delta": (CONTENT, "text"),
    "thinking_delta": (REASONING, "thinking"),
    "input_json_delta": (TOOL, "partial_json"),
}
DELTA_OF = {channel: (kind, name) for kind, (channel, name) in DELTAS.items()}
ERROR_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class MessagesDialect(Dialect):
    """Messages."""

    path: ClassVar[str] = "/v1/messages"
    key_header: ClassVar[str] = "x-api-key"
    system_fields = ("system",)
    limits = ("max_tokens",)
    sampling: ClassVar[Mapping[str, str]] = {"temperature": "temperature"}
    answer_field = "message"
    usage_names = ("input_tokens", "output_tokens")

    def __init__(self) -> None:
        self._tools: set[int] = set()  # indexes of tool blocks in the current call
        self._blocks: dict[int, int] = {}  # index in the current call -> index at the client
        self._open: tuple[int, str] | None = None  # index and type of the block open at the client
        self._thought: list[str] = []  # what the open block has said, if it is one of thinking
        self._next = 0
        self.severed_reasoning: list[bytes] = []

    # Requests

    def is_structured(self, fields: Fields) -> bool:
        config = mapping_of(fields.get("output_config"))
        return bool(fields.get("output_format") or config.get("format"))

    def remaining_limit(self, fields: Fields, used_tokens: int) -> dict[str, int]:
        """max_tokens less what was said, and more than the thinking may take."""
        budget = mapping_of(fields.get("thinking")).get("budget_tokens")
        floor = budget + 1 if isinstance(budget, int) else 1
        left = super().remaining_limit(fields, used_tokens)
        return {name: max(floor, most) for name, most in left.items()}

    def sampling_overrides(self, sampling: Mapping[str, float], fields: Fields) -> dict[str, float]:
        """Temperature, at most 1; not beside thinking, which allows no other than 1."""
        if _thinks(fields):
            return {}
        raised = super().sampling_overrides(sampling, fields)
        return {name: min(1.0, value) for name, value in raised.items()}

    def answer_now(self, fields: Fields) -> dict[str, Any]:
        """Switch thinking off, and what the API takes only beside thinking."""
        if not _thinks(fields):
            return {}
        changed: dict[str, Any] = {"thinking": {"type": "disabled"}}
        context = mapping_of(fields.get("context_management"))
        edits = context.get("edits")
        if isinstance(edits, list):
            kept = [edit for edit in edits if not _clears_thinking(edit)]
            changed["context_management"] = {**context, "edits": kept} if kept else None
        return changed

    def unsigned_reasoning(self, messages: Sequence[Message]) -> list[tuple[bytes, int, int]]:
        """Thinking without a signature."""
        return [
            (digest(str(block.get("thinking"))), at, place)
            for at, message in enumerate(messages)
            if message.get("role") == "assistant" and isinstance(message.get("content"), list)
            for place, block in enumerate(message["content"])
            if isinstance(block, dict)
            and block.get("type") == "thinking"
            and not block.get("signature")
        ]

    # The stream

    def restart(self) -> None:
        super().restart()
        self._tools.clear()
        self._blocks.clear()

    def read(self, event: Event) -> list[Piece]:
        """Deltas on their channel; everything about a tool block on its call; the rest as events."""
        kind, index = event.get("type"), int(event.get("index") or 0)
        if kind == "content_block_delta":
            delta = event.get("delta") or {}
            channel, name = DELTAS.get(str(delta.get("type")), (EVENT, ""))
            call = index if channel == TOOL else 0
            return [Piece(channel, str(delta.get(name) or ""), call=call, raw=event)]
        if kind == "message_stop":
            self.ended = True
        elif kind == "message_delta":
            self._note_edits(event)
        block = mapping_of(event.get("content_block"))
        if "tool_use" in str(block.get("type")):
            self._tools.add(index)
        if kind in ("content_block_start", "content_block_stop") and index in self._tools:
            return [Piece(TOOL, call=index, raw=event)]
        return [Piece(EVENT, raw=event)]

    def _note_edits(self, found: Event) -> None:
        edits = mapping_of(found.get("context_management")).get("applied_edits")
        if isinstance(edits, list):
            self.applied_edits = [edit for edit in edits if isinstance(edit, dict)]

    def write(self, piece: Piece) -> list[Event]:
        """The event, with the index that its block has for the client."""
        event = piece.raw
        if event is None:
            return self._new_delta(piece)
        match event.get("type"):
            case "message_start" if self.calls > 1:
                return []
            case "content_block_start":
                return self._start_block(event)
            case "content_block_delta" | "content_block_stop":
                return [self._place(event)]
            case "message_delta":
                return [*self._close_block(), event]
        return [event]

    def finish(self, ended: str, said: str = "") -> list[Event]:
        reason = "tool_use" if ended == "tool_calls" else "end_turn"
        delta = {"stop_reason": reason, "stop_sequence": None}
        return [
            *(self._say(said) if said else ()),
            *self._close_block(),
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 0}},
            {"type": "message_stop"},
        ]

    def usage(self, found: Event) -> Usage | None:
        """The usage of message_start, message_delta or a whole message."""
        usage = super().usage(found)
        if usage and isinstance(found.get("message"), dict):
            # What a message_start tells of its output is only the beginning of it.
            return {name: value for name, value in usage.items() if name != "output_tokens"}
        return usage

    def _start_block(self, event: Event) -> list[Event]:
        """Begin a block at the next free index; a text goes on in the text that is open."""
        index, kind = int(event["index"]), str(event["content_block"]["type"])
        out: list[Event] = []
        if not (self._open and self._open[1] == kind == "text"):
            out = self._close_block()
            self._open = (self._next, kind)
            self._next += 1
            out.append({**event, "index": self._open[0]})
        self._blocks[index] = self._open[0]
        return out

    def _place(self, event: Event) -> Event:
        """A delta or the end of a block, at the index that the block has for the client."""
        index, delta = int(event["index"]), event.get("delta") or {}
        if event["type"] == "content_block_stop":
            self._open = None
            self._thought.clear()
        elif delta.get("type") == "thinking_delta":
            self._thought.append(str(delta.get("thinking")))
        return {**event, "index": self._blocks.get(index, index)}

    def _close_block(self) -> list[Event]:
        """End the open block; thinking that was severed stays open, since nobody has signed it."""
        if self._open is None:
            return []
        (index, kind), self._open = self._open, None
        if kind == "thinking":
            self.severed_reasoning.append(digest("".join(self._thought)))
            self._thought.clear()
            return []
        return [{"type": "content_block_stop", "index": index}]

    def _say(self, text: str) -> list[Event]:
        """Words of ours, in the text block that is open or in one of their own."""
        block = {"type": "text", "text": ""}
        begun = {"type": "content_block_start", "index": -1, "content_block": block}
        return [*self._start_block(begun), *self._new_delta(Piece(CONTENT, text))]

    def _new_delta(self, piece: Piece) -> list[Event]:
        kind, name = DELTA_OF[piece.channel]
        if piece.channel == REASONING:
            self._thought.append(piece.text)
        index = self._open[0] if self._open else max(0, self._next - 1)
        delta = {"type": kind, name: piece.text}
        return [{"type": "content_block_delta", "index": index, "delta": delta}]

    # Whole answers

    def pieces(self, answer: Event) -> list[Piece]:
        found: list[Piece] = []
        self._note_edits(answer)
        blocks = answer.get("content")
        for at, block in enumerate(blocks if isinstance(blocks, list) else ()):
            match block:
                case {"type": "thinking", "thinking": str(text)}:
                    found.append(Piece(REASONING, text))
                case {"type": "text", "text": str(text)}:
                    found.append(Piece(CONTENT, text))
                case {"type": "tool_use", "input": dict(given)}:
                    found.append(Piece(TOOL, orjson.dumps(given).decode(), call=at, raw=block))
        return found

    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        """The last message, its text that of all calls; thinking of severed calls has no signature and is left out."""
        blocks, made = answer["content"], {**answer, **pick(first, "id", "model")}
        used = [b for b in blocks if b.get("type") == "tool_use"]
        others = [b for b in blocks if b.get("type") not in ("text", "tool_use")]
        text = [{"type": "text", "text": texts[CONTENT]}] if texts[CONTENT] else []
        made["content"] = [*others, *text, *used[:calls]]
        if len(used) > calls:
            made["stop_reason"] = "tool_use"
        return made

    # Answers of our own

    def own_answer(self, answer: OwnAnswer) -> Event:
        return {
            "id": f"msg_{answer.id}",
            "type": "message",
            "role": "assistant",
            "model": answer.model,
            "content": [{"type": "text", "text": answer.text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": self.estimate_usage(0, 0),
        }

    def own_events(self, answer: OwnAnswer, fields: Fields) -> list[Event]:  # usage is always told
        begun = {**self.own_answer(answer), "content": [], "stop_reason": None}
        return [{"type": "message_start", "message": begun}, *self.finish("stop", answer.text)]

    # Errors

    def error(self, error: MillgateError, param: str | None = None) -> Event:
        kind = ERROR_TYPES.get(status_of(error), "api_error")
        return {"type": "error", "error": {"type": kind, "message": str(error)}}


def _clears_thinking(edit: object) -> bool:
    return isinstance(edit, Mapping) and str(edit.get("type")).startswith("clear_thinking")


def _thinks(fields: Fields) -> bool:
    thinking = fields.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") in ("enabled", "adaptive")
