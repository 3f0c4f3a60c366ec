"""Messages: the events of Anthropic's messages stream.

The client's stream is a row of blocks. After a rollback the new call begins with blocks of its own:
one that continues the block still open at the client (same type) is merged into it, any other gets the
next free index, and the second message_start is left out.
"""

from collections.abc import Mapping
from typing import Any

from headgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from headgate.guard.dialects import Event, warmer

DELTAS = {
    "text_delta": (CONTENT, "text"),
    "thinking_delta": (REASONING, "thinking"),
    "input_json_delta": (TOOL, "partial_json"),
}
MADE = {channel: (kind, name) for kind, (channel, name) in DELTAS.items()}


class MessagesWire:
    """Message stream events as pieces and back."""

    def __init__(self) -> None:
        self._calls = 0
        self._tools: set[int] = set()  # indexes of tool blocks in the call of now
        self._blocks: dict[int, int] = {}  # index in the call of now -> index at the client
        self._open: tuple[int, str] | None = None  # index and type of the block open at the client
        self._merged = False  # whether the open block continues one of an earlier call
        self._next = 0

    def restart(self) -> None:
        """A new call begins."""
        self._calls += 1
        self._tools.clear()
        self._blocks.clear()

    def read(self, event: Event) -> list[Piece]:
        """Deltas on their channel; everything about a tool block on its call; the rest as events."""
        kind, index = event.get("type"), int(event.get("index") or 0)
        if kind == "content_block_delta":
            delta = event.get("delta") or {}
            channel, name = DELTAS.get(str(delta.get("type")), (EVENT, ""))
            if channel != EVENT:
                call = index if channel == TOOL else 0
                return [Piece(channel, str(delta.get(name) or ""), call=call, raw=event)]
        if kind == "content_block_start" and "tool_use" in str(
            (event.get("content_block") or {}).get("type")
        ):
            self._tools.add(index)
        if kind in ("content_block_start", "content_block_stop") and index in self._tools:
            return [Piece(TOOL, call=index, raw=event)]
        return [Piece(EVENT, raw=event)]

    def write(self, piece: Piece) -> list[Event]:
        """The event at its place in the client's row of blocks."""
        event = piece.raw
        if event is None:
            return self._made(piece)
        match event.get("type"):
            case "message_start":
                return [event] if self._calls <= 1 else []
            case "content_block_start":
                return self._start(event)
            case "content_block_delta":
                return self._delta(event)
            case "content_block_stop":
                return self._stop(event)
            case "message_delta" if self._open:
                return [*self._close(), event]
        return [event]

    def finish(self, ended: str) -> list[Event]:
        """The end of a stream that was ended after complete tool calls."""
        reason = "tool_use" if ended == "tool_calls" else "end_turn"
        delta = {"stop_reason": reason, "stop_sequence": None}
        return [
            *self._close(),
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 0}},
            {"type": "message_stop"},
        ]

    def sampling(self, changed: Mapping[str, float], asked: Mapping[str, Any]) -> dict[str, float]:
        """Temperature, at most 1."""
        warm = warmer(changed, asked, ("temperature",))
        return {name: min(1.0, value) for name, value in warm.items()}

    def structured(self, asked: Mapping[str, Any]) -> bool:
        """Whether an output format is asked for."""
        config = asked.get("output_config")
        return bool(asked.get("output_format")) or (
            isinstance(config, Mapping) and bool(config.get("format"))
        )

    def limit(self, asked: Mapping[str, Any]) -> int:
        """max_tokens."""
        return int(asked.get("max_tokens") or 0)

    def _start(self, event: Event) -> list[Event]:
        index, kind = int(event["index"]), str(event["content_block"]["type"])
        if self._open and self._open[1] == kind and index not in self._tools:
            self._blocks[index], self._merged = self._open[0], True
            return []
        out = self._close()
        self._blocks[index], self._merged = self._next, False
        self._open = (self._next, kind)
        self._next += 1
        return [*out, {**event, "index": self._blocks[index]}]

    def _delta(self, event: Event) -> list[Event]:
        if self._merged and event["delta"].get("type") == "signature_delta":
            return []  # it signs only the second half of what the client has
        index = int(event["index"])
        return [{**event, "index": self._blocks.get(index, index)}]

    def _stop(self, event: Event) -> list[Event]:
        index = int(event["index"])
        self._open = None
        return [{**event, "index": self._blocks.get(index, index)}]

    def _close(self) -> list[Event]:
        if self._open is None:
            return []
        index, self._open = self._open[0], None
        return [{"type": "content_block_stop", "index": index}]

    def _made(self, piece: Piece) -> list[Event]:
        kind, name = MADE[piece.channel]
        index = self._open[0] if self._open else max(0, self._next - 1)
        delta = {"type": kind, name: piece.text}
        return [{"type": "content_block_delta", "index": index, "delta": delta}]
