"""Chat: the chunks of OpenAI's chat completions, and of all who speak like it.

Choice 0 is guarded; other choices of the same request pass as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from headgate.guard.dialects import Event, warmer

REASONS = ("reasoning_content", "reasoning")  # as different servers name it


class ChatWire:
    """Chat completion chunks as pieces and back."""

    def __init__(self) -> None:
        self._first: Event = {}  # id, model and so on of the first chunk
        self._calls = 0
        self._begun = False  # whether the client has seen the role

    def restart(self) -> None:
        """A new call begins."""
        self._calls += 1

    def read(self, event: Event) -> list[Piece]:
        """The parts of a chunk that carry text, each with a chunk of its own, then what is left of it."""
        if not self._first:
            self._first = {k: v for k, v in event.items() if k not in ("choices", "usage")}
        choices = event.get("choices") or []
        if len(choices) != 1 or choices[0].get("index", 0) != 0:
            return [Piece(EVENT, raw=event)]
        parts = _parts(choices[0].get("delta") or {})
        last = choices[0].get("finish_reason")
        if len(parts) == 1 and not last:
            channel, text, call, _ = parts[0]
            return [Piece(channel, text, call=call, raw=event)]
        pieces = [
            Piece(channel, text, call=call, raw=self._chunk(event, choices[0], delta))
            for channel, text, call, delta in parts
        ]
        if last or not parts:
            rest = {**event, "choices": [{**choices[0], "delta": _rest(choices[0])}]}
            pieces.append(Piece(EVENT, raw=rest))
        return pieces

    def write(self, piece: Piece) -> list[Event]:
        """A chunk with the id of the first one; a role is said once."""
        raw = piece.raw
        if raw is None:
            return [self._made(piece)]
        if piece.channel == EVENT and self._again(raw):
            return []
        self._begun = True
        return [raw if self._calls <= 1 else {**raw, **self._first}]

    def finish(self, ended: str) -> list[Event]:
        """The last chunk of a stream that was ended after complete tool calls."""
        return [self._chunk({}, {"finish_reason": ended or "stop"}, {})]

    def sampling(self, changed: Mapping[str, float], asked: Mapping[str, Any]) -> dict[str, float]:
        """Temperature and penalties."""
        return warmer(
            changed, asked, ("temperature", "frequency_penalty", "presence_penalty", "top_p")
        )

    def structured(self, asked: Mapping[str, Any]) -> bool:
        """Whether a JSON response format is asked for."""
        wanted = asked.get("response_format")
        return isinstance(wanted, Mapping) and wanted.get("type") in ("json_object", "json_schema")

    def limit(self, asked: Mapping[str, Any]) -> int:
        """max_completion_tokens, or max_tokens."""
        return int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 0)

    def _again(self, raw: Event) -> bool:
        """Whether an event only says for a second time who speaks."""
        choices = raw.get("choices") or []
        if not self._begun or self._calls <= 1 or not choices:
            return False
        return not choices[0].get("finish_reason") and choices[0].get("index", 0) == 0

    def _made(self, piece: Piece) -> Event:
        self._begun = True
        delta: Event = {"content": piece.text}
        if piece.channel == REASONING:
            delta = {REASONS[0]: piece.text}
        elif piece.channel == TOOL:
            delta = {"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]}
        return self._chunk({}, {}, delta)

    def _chunk(self, event: Event, choice: Event, delta: Event) -> Event:
        made = {"index": 0, "finish_reason": None, **choice, "delta": delta}
        if delta:
            made["finish_reason"] = None
        return {"object": "chat.completion.chunk", **self._first, **event, "choices": [made]}


def _parts(delta: Event) -> list[tuple[str, str, int, Event]]:
    """What carries text in a delta: channel, text, call, and the delta that says only this."""
    parts: list[tuple[str, str, int, Event]] = []
    for name in REASONS:
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


def _rest(choice: Event) -> Event:
    told: Sequence[str] = ("content", "tool_calls", *REASONS)
    delta = choice.get("delta") or {}
    rest = {name: value for name, value in delta.items() if name not in told or not value}
    return {k: v for k, v in rest.items() if k != "role"} if _parts(delta) else rest
