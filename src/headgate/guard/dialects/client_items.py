"""The items that a client of responses has seen: where each stands, what it says, and the number of the next event.

After a rollback the new call's message is merged into the one that is still open; other items get the next free place.
Events that repeat a whole text are rewritten to what the client received, and sequence numbers run on.
"""

from collections.abc import Mapping
from typing import Any

from headgate.guard.dialects.dialect import Event

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
        self._message: tuple[int, str] | None = None  # place of the message that is open
        self._open_parts: set[tuple[str, int]] = set()  # item id and content index
        self._texts: dict[str, list[str]] = {}  # item id -> texts the client has

    def restart(self) -> None:
        """A new call numbers its items from 0."""
        self._places.clear()

    def number(self, event: Event) -> Event:
        """The event with its number in the client's stream."""
        event = {**event, "sequence_number": self._number}
        self._number += 1
        return event

    def note_passed(self, id: str, text: str) -> None:
        """A delta of this item went to the client as it came."""
        self._number += 1
        self._texts.setdefault(id, []).append(text)

    def add(self, event: Event) -> list[Event]:
        """An item begins: at the next free place, or as part of the message that is open."""
        index, item = int(event["output_index"]), event["item"]
        is_message = item.get("type") == "message"
        if is_message and self._message:
            self._places[index] = self._message
            return []
        place = (self._begun, str(item.get("id")))
        self._begun += 1
        self._places[index] = place
        if is_message:
            self._message = place
        return [self.number({**event, "output_index": place[0]})]

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


def _replace_text(part: Any, text: str) -> Any:  # noqa: ANN401  # a part, whatever the upstream sent
    """An output text with another text; the annotations point into the old one, so they are dropped."""
    if not isinstance(part, Mapping) or part.get("type") != "output_text":
        return part
    return part if part.get("text") == text else {**part, "text": text, "annotations": []}
