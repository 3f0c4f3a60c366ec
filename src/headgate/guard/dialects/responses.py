"""Responses: the events of OpenAI's responses stream.

The client's stream is a row of items. After a rollback the new call's message item is merged into the
one still open at the client; other items get the next free place. Events that repeat the whole text
(done, completed) are rewritten to what the client received, and sequence numbers run on.
"""

from collections.abc import Mapping
from typing import Any

from headgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from headgate.guard.dialects import Event, warmer

DELTAS = {
    "response.output_text.delta": CONTENT,
    "response.reasoning_text.delta": REASONING,
    "response.reasoning_summary_text.delta": REASONING,
    "response.function_call_arguments.delta": TOOL,
    "response.custom_tool_call_input.delta": TOOL,
}
CALLS = ("function_call", "custom_tool_call")
BEGIN = ("response.created", "response.in_progress", "response.queued")
END = ("response.completed", "response.incomplete", "response.failed")


class ResponsesWire:
    """Response stream events as pieces and back."""

    def __init__(self) -> None:
        self._calls = 0
        self._number = 0
        self._first: Event = {}  # the response object of the first call
        self._tools: set[int] = set()  # output indexes of calls in the call of now
        self._places: dict[int, tuple[int, str]] = {}  # index now -> (index, id) at the client
        self._open: dict[str, tuple[int, str]] = {}  # item type -> place, while it is open
        self._texts: dict[str, str] = {}  # item id -> text the client has
        self._delta: dict[
            str, Event
        ] = {}  # channel -> the last delta seen, a pattern for made ones
        self._items: list[Event] = []  # items done at the client

    def restart(self) -> None:
        """A new call begins."""
        self._calls += 1
        self._tools.clear()
        self._places.clear()

    def read(self, event: Event) -> list[Piece]:
        """Deltas on their channel; everything about a call on that call; the rest as events."""
        kind, index = str(event.get("type")), int(event.get("output_index") or 0)
        if kind == "response.output_item.added" and event["item"].get("type") in CALLS:
            self._tools.add(index)
        channel = DELTAS.get(kind, EVENT)
        if index in self._tools and "output_index" in event:
            channel = TOOL
        text = str(event.get("delta") or "") if kind in DELTAS else ""
        if kind in DELTAS:
            self._delta[channel] = event
        return [Piece(channel, text, call=index if channel == TOOL else 0, raw=event)]

    def write(self, piece: Piece) -> list[Event]:
        """The event at its place in the client's row of items."""
        event = piece.raw
        if event is None:
            event = {**self._delta[piece.channel], "delta": piece.text}
        kind = event.get("type")
        if kind in BEGIN:
            return self._begin(event)
        if kind in END:
            return [self._numbered({**event, "response": self._whole(event["response"])})]
        if kind == "response.output_item.added":
            return self._added(event)
        if "output_index" not in event:
            return [self._numbered(event)]
        return self._placed(event)

    def finish(self, ended: str) -> list[Event]:  # the output says that calls are there
        """The end of a stream that was ended after complete tool calls."""
        response = {**self._first, "status": "completed", "output": list(self._items)}
        return [self._numbered({"type": "response.completed", "response": response})]

    def sampling(self, changed: Mapping[str, float], asked: Mapping[str, Any]) -> dict[str, float]:
        """Temperature."""
        return warmer(changed, asked, ("temperature",))

    def structured(self, asked: Mapping[str, Any]) -> bool:
        """Whether a JSON text format is asked for."""
        text = asked.get("text")
        wanted = text.get("format") if isinstance(text, Mapping) else None
        return isinstance(wanted, Mapping) and wanted.get("type") in ("json_object", "json_schema")

    def limit(self, asked: Mapping[str, Any]) -> int:
        """max_output_tokens."""
        return int(asked.get("max_output_tokens") or 0)

    def _begin(self, event: Event) -> list[Event]:
        if self._calls > 1:
            return []
        self._first = event.get("response") or {}
        return [self._numbered(event)]

    def _added(self, event: Event) -> list[Event]:
        index, item = int(event["output_index"]), event["item"]
        kind = str(item.get("type"))
        if kind in self._open and kind not in CALLS:
            self._places[index] = self._open[kind]
            return []
        place = (len(self._texts), str(item.get("id")))
        self._places[index] = self._open[kind] = place
        self._texts[place[1]] = ""
        return [self._numbered({**event, "output_index": place[0]})]

    def _placed(self, event: Event) -> list[Event]:
        index = int(event["output_index"])
        known = next(reversed(self._open.values()), (index, str(event.get("item_id"))))
        place, id = self._places.get(index, known)
        event = {**event, "output_index": place}
        if "item_id" in event:
            event["item_id"] = id
        kind = str(event["type"])
        if kind == "response.content_part.added" and self._texts.get(id):
            return []  # the part is open already
        if kind in DELTAS:
            self._texts[id] = self._texts.get(id, "") + event["delta"]
        elif kind.endswith(".done"):
            event = self._done(event, id)
        return [self._numbered(event)]

    def _done(self, event: Event, id: str) -> Event:
        """The event with the text that the client really has."""
        text = self._texts.get(id, "")
        if isinstance(event.get("text"), str):
            return {**event, "text": text}
        if "part" in event:
            return {**event, "part": _said(event["part"], text)}
        if "item" in event:
            item = self._patched({**event["item"], "id": id})
            self._items.append(item)
            self._open.pop(str(item.get("type")), None)
            return {**event, "item": item}
        return event

    def _patched(self, item: Event) -> Event:
        text = self._texts.get(str(item.get("id")), "")
        if item.get("type") != "message" or not item.get("content"):
            return item
        return {**item, "content": [_said(part, text) for part in item["content"]]}

    def _whole(self, response: Event) -> Event:
        """The final response as the client saw it come: the id of the first call, all items."""
        if self._calls <= 1:
            return response
        return {**response, "id": self._first.get("id"), "output": list(self._items)}

    def _numbered(self, event: Event) -> Event:
        event = {**event, "sequence_number": self._number}
        self._number += 1
        return event


def _said(part: Event, text: str) -> Event:
    return {**part, "text": text} if part.get("type") == "output_text" else part
