"""The items that a client of responses has seen: where each stands, what it says, and the number of the next event.

After a rollback the new call's message is merged into the one that is still open. Any other item gets the next free
place; a message that the rollback left open ends before it, since clients expect one item at a time.
Events that repeat a whole text are rewritten to what the client received, and sequence numbers run on.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from millgate.guard.dialects.dialect import Event

TEXT_DELTA = "response.output_text.delta"


class ClientItems:
    """The row of items of one answer, over as many calls as it takes. `done` has those that are complete."""

    def __init__(self) -> None:
        self.done: list[Event] = []
        self._number = 0
        self._begun = 0
        self._places: dict[
            int, tuple[int, str]
        ] = {}  # index in the call -> (index, id) at the client
        self._message: tuple[int, str] | None = None  # place of the message that is open ...
        self._item: Event = {}  # ... how it began ...
        self._is_left_open = False  # ... and whether the call that began it was severed
        self._open_parts: set[tuple[str, int]] = set()  # item id and content index
        self._texts: dict[str, list[str]] = {}  # item id -> texts the client has

    def restart(self) -> None:
        """A new call numbers its items from 0."""
        self._places.clear()
        self._is_left_open = self._message is not None

    def number(self, event: Event) -> Event:
        """The event with its number in the client's stream."""
        event = {**event, "sequence_number": self._number}
        self._number += 1
        return event

    def add(self, event: Event) -> list[Event]:
        """An item begins: at the next free place, or as part of the message that is open."""
        index, item = int(event["output_index"]), event["item"]
        is_message = item.get("type") == "message"
        if is_message and self._message:
            self._places[index] = self._message
            self._is_left_open = False
            return []
        closed = self.close_left_open()
        place = (self._begun, str(item.get("id")))
        self._begun += 1
        self._places[index] = place
        if is_message:
            self._message, self._item = place, item
        return [*closed, self.number({**event, "output_index": place[0]})]

    def close_left_open(self) -> list[Event]:
        """The events that end a message whose call was severed."""
        return self.close_message() if self._is_left_open else []

    def close_message(self) -> list[Event]:
        """The events that end the message that is open, if one is, with the text that the client has."""
        self._is_left_open = False
        if self._message is None:
            return []
        (place, id), self._message = self._message, None
        text = "".join(self._texts.pop(id, ()))
        events: list[Event] = []
        content: list[Event] = []
        if (id, 0) in self._open_parts:
            self._open_parts.discard((id, 0))
            at = {"output_index": place, "item_id": id, "content_index": 0}
            content = [{"type": "output_text", "text": text, "annotations": []}]
            events += [
                {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
                {"type": "response.content_part.done", **at, "part": content[0]},
            ]
        item = {**self._item, "status": "completed", "content": content}
        self.done.append(item)
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
        return [self.number(event) for event in events]

    def say(self, text: str, id: str = "") -> list[Event]:
        """Words of ours, in the message that is open or in one of their own, which may have this id."""
        out: list[Event] = []
        if self._message is None:
            item = own_message(id or f"msg_{uuid4().hex}")
            out += self.add(
                {"type": "response.output_item.added", "output_index": -1, "item": item}
            )
        place, id = self._message or (0, "")
        at = {"output_index": place, "item_id": id, "content_index": 0}
        if (id, 0) not in self._open_parts:
            self._open_parts.add((id, 0))
            part = {"type": "output_text", "text": "", "annotations": []}
            out.append(self.number({"type": "response.content_part.added", **at, "part": part}))
        self._texts.setdefault(id, []).append(text)
        return [*out, self.number({"type": TEXT_DELTA, **at, "delta": text, "logprobs": []})]

    def place(self, event: Event) -> list[Event]:
        """An event of an item, at the item's place and with the text that the client has."""
        index = int(event["output_index"])
        other = self._message or (index, str(event.get("item_id")))
        place, id = self._places.get(index, other)
        event = {**event, "output_index": place}
        if "item_id" in event:
            event["item_id"] = id
        kind = str(event["type"])
        if kind == "response.content_part.added":
            part = (id, int(event.get("content_index") or 0))
            if part in self._open_parts:
                return []
            self._open_parts.add(part)
        elif kind == TEXT_DELTA:
            self._texts.setdefault(id, []).append(event["delta"])
        elif kind.endswith(".done"):
            event = self._complete(event, place, id)
        return [self.number(event)]

    def _complete(self, event: Event, place: int, id: str) -> Event:
        """A done event with the text that the client really has."""
        if "item" in event:
            item = self._with_text({**event["item"], "id": id})
            self.done.append(item)
            if self._message == (place, id):
                self._message = None
            return {**event, "item": item}
        if id not in self._texts:
            return event
        text = "".join(self._texts[id])
        if isinstance(event.get("text"), str):
            return {**event, "text": text}
        if isinstance(event.get("part"), Mapping):
            return {**event, "part": _replace_text(event["part"], text)}
        return event

    def _with_text(self, item: Event) -> Event:
        texts = self._texts.get(str(item.get("id")))
        parts = item.get("content")
        # A message of several parts cannot have been resumed: its texts stand as they are.
        if texts is None or not isinstance(parts, list) or len(parts) != 1:
            return item
        return {**item, "content": [_replace_text(parts[0], "".join(texts))]}


def own_message(id: str) -> Event:
    """A message of ours that begins."""
    return {
        "type": "message",
        "id": id,
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }


def _replace_text(part: Any, text: str) -> Any:  # noqa: ANN401  # a part, whatever the upstream sent
    """An output text with another text; the annotations point into the old one, so they are dropped."""
    if not isinstance(part, Mapping) or part.get("type") != "output_text":
        return part
    return part if part.get("text") == text else {**part, "text": text, "annotations": []}
