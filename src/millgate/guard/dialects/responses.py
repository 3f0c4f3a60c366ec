"""Responses: OpenAI's responses, the one API that Codex speaks.

The client's stream is a row of items (`ClientItems`). Items other than messages pass as they are, encrypted reasoning
included. A reasoning item that was severed never ends, and is not in the final output: it could not be sent back. The
response keeps the id of its first call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

from millgate.errors import MillgateError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from millgate.guard.dialects.dialect import (
    JSON_FORMATS,
    Dialect,
    Event,
    Fields,
    OwnAnswer,
    Usage,
    check_messages,
    mapping_of,
    pick,
    texts_of,
)
from millgate.guard.error_codes import openai_error, type_and_code
from millgate.guard.resume import Message

TEXT_DELTA = "response.output_text.delta"
DELTAS = {
    TEXT_DELTA: CONTENT,
    "response.reasoning_text.delta": REASONING,
    "response.reasoning_summary_text.delta": REASONING,
    "response.function_call_arguments.delta": TOOL,
    "response.custom_tool_call_input.delta": TOOL,
}
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
BEGIN = ("response.created", "response.in_progress", "response.queued")
END = ("response.completed", "response.incomplete", "response.failed")
UNWATCHED = {
    "background": "a response in the background cannot be severed",
    "conversation": "a resumed answer would leave its steering in the stored conversation",
}


class ResponsesDialect(Dialect):
    """Responses."""

    path: ClassVar[str] = "/v1/responses"
    reference_field: ClassVar[str] = "previous_response_id"
    messages_field = "input"
    system_fields = ("instructions",)
    limits = ("max_output_tokens",)
    least_limit = 16  # a smaller one is refused
    sampling: ClassVar[Mapping[str, str]] = {"temperature": "temperature"}
    answer_field = "response"
    usage_names = ("input_tokens", "output_tokens", "total_tokens")

    def __init__(self) -> None:
        self._first: Event = {}  # the response object of the first call
        self._tools: set[int] = set()  # output indexes of tool calls in the current call
        self._deltas: dict[str, Event] = {}  # channel -> the last delta, a pattern for new ones
        self._items = ClientItems()

    # Requests

    def conversation(self, fields: Fields) -> tuple[Message, ...]:
        """`input`, a text or a list of items; none if a stored prompt brings it."""
        given = fields.get("input")
        if given is None:
            return ()
        if isinstance(given, str):
            return ({"role": "user", "content": given},)
        return check_messages(given, "input", roles=False)

    def why_unwatched(self, fields: Fields) -> str:
        """What would leave traces at the upstream cannot be asked for again."""
        name = next((name for name in UNWATCHED if fields.get(name)), "")
        return f"{name} is set: {UNWATCHED[name]}" if name else ""

    def is_structured(self, fields: Fields) -> bool:
        wanted = mapping_of(mapping_of(fields.get("text")).get("format"))
        return wanted.get("type") in JSON_FORMATS

    def sampling_overrides(self, sampling: Mapping[str, float], fields: Fields) -> dict[str, float]:
        """Temperature, if the request names one: models that reason take none."""
        is_named = fields.get("temperature") is not None
        return super().sampling_overrides(sampling, fields) if is_named else {}

    def answer_now(self, fields: Fields) -> dict[str, Any]:
        """Ask for the least effort, if the request asks for reasoning."""
        reasoning = fields.get("reasoning")
        return (
            {"reasoning": {**reasoning, "effort": "low"}} if isinstance(reasoning, Mapping) else {}
        )

    # The stream

    def restart(self) -> None:
        super().restart()
        self._tools.clear()
        self._items.restart()

    def read(self, event: Event) -> list[Piece]:
        """Deltas on their channel; everything about a tool call on that call; the rest as events."""
        kind, index = str(event.get("type")), int(event.get("output_index") or 0)
        if kind in END:
            self.ended = True
        if kind in BEGIN or kind in END:
            self._note_id(event)
        if kind == "response.output_item.added" and event["item"].get("type") in CALLS:
            self._tools.add(index)
        channel = DELTAS.get(kind, EVENT)
        if index in self._tools and "output_index" in event:
            channel = TOOL
        text = str(event.get("delta") or "") if kind in DELTAS else ""
        if kind in DELTAS:
            self._deltas[channel] = event
        return [Piece(channel, text, call=index if channel == TOOL else 0, raw=event)]

    def write(self, piece: Piece) -> list[Event]:
        """The event, with the place that its item has for the client."""
        event, items = piece.raw, self._items
        if event is None:
            event = {**self._deltas[piece.channel], "delta": piece.text}
        kind = event.get("type")
        if kind in BEGIN:
            if self.calls > 1:
                return []
            self._first = event.get("response") or {}
        elif kind in END:
            # the final response as the client saw it come: the id of the first call, all items
            closed, whole = items.close_left_open(), event["response"]
            if self.calls > 1:
                whole = {**whole, "id": self._first.get("id"), "output": list(items.done)}
            return [*closed, items.number({**event, "response": whole})]
        elif kind == "response.output_item.added":
            return items.add(event)
        elif "output_index" in event:
            return items.place(event)
        return [items.number(event)]

    def finish(self, ended: str, said: str = "") -> list[Event]:
        """The last words, the end of the message that is open, and response.completed, whose output says the rest."""
        words = self._items.say(said) if said else []
        words += self._items.close_message()
        response = {**self._first, "status": "completed", "output": list(self._items.done)}
        response["usage"] = self.estimate_usage(0, 0)
        return [*words, self._items.number({"type": "response.completed", "response": response})]

    def estimate_usage(self, input_tokens: int, output_tokens: int) -> Usage:
        return {
            **super().estimate_usage(input_tokens, output_tokens),
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }

    def _note_id(self, event: Event) -> None:
        first, last = self.answer_ids
        last = str((event.get("response") or {}).get("id") or last)
        self.answer_ids = (first or last, last)

    # Whole answers

    def pieces(self, answer: Event) -> list[Piece]:
        self._note_id({"response": answer})
        found: list[Piece] = []
        items = answer.get("output")
        for at, item in enumerate(items if isinstance(items, list) else ()):
            match item:
                case {"type": "reasoning"}:
                    texts = [*texts_of(item.get("summary")), *texts_of(item.get("content"))]
                    found += [Piece(REASONING, text) for text in texts]
                case {"type": "message"}:
                    found += [Piece(CONTENT, text) for text in texts_of(item.get("content"))]
                case {"type": "function_call" | "custom_tool_call" as kind}:
                    found.append(Piece(TOOL, str(item.get(CALLS[kind]) or ""), call=at, raw=item))
        return found

    def join(self, answer: Event, texts: Mapping[str, str], calls: int, first: Event) -> Event:
        """The last response with the text of all calls in its message; reasoning of severed calls is left out."""
        output, used, has_text = [], 0, bool(texts[CONTENT])
        for item in answer["output"]:
            if item.get("type") in CALLS:
                used += 1
                output += [item] if used <= calls else []
            elif item.get("type") == "message" and has_text:
                output.append({**item, "content": [_message_part(item, texts[CONTENT])]})
                has_text = False
            elif item.get("type") != "message":
                output.append(item)
        if has_text:  # the last call answered with tool calls alone
            output.insert(0, _whole_message(f"msg_{first.get('id')}", texts[CONTENT]))
        same = pick(first, "id", "created_at", "model")
        return {**answer, "output": output, **same}

    # Answers of our own

    def own_answer(self, answer: OwnAnswer) -> Event:
        return {
            "id": f"resp_{answer.id}",
            "object": "response",
            "created_at": answer.created,
            "status": "completed",
            "model": answer.model,
            "output": [_whole_message(f"msg_{answer.id}", answer.text)],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": self.estimate_usage(0, 0),
        }

    def own_events(self, answer: OwnAnswer, fields: Fields) -> list[Event]:  # usage is always told
        whole = self.own_answer(answer)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        items = self._items
        return [
            items.number({"type": "response.created", "response": begun}),
            items.number({"type": "response.in_progress", "response": begun}),
            *items.say(answer.text, whole["output"][0]["id"]),
            *items.close_message(),
            items.number({"type": "response.completed", "response": whole}),
        ]

    # Errors

    def error(self, error: MillgateError, param: str | None = None) -> Event:
        return openai_error(error, param)

    def error_event(self, error: MillgateError) -> Event:
        """An error event; no response.completed follows it."""
        _, code = type_and_code(error)
        event = {"type": "error", "code": code, "message": str(error), "param": None}
        return self._items.number(event)


def _whole_message(id: str, text: str) -> Event:
    return {**own_message(id), "status": "completed", "content": [_message_part({}, text)]}


def _message_part(item: Event, text: str) -> Event:
    parts = item.get("content")
    first = parts[0] if isinstance(parts, list) and parts else {}
    same = first if isinstance(first, dict) and first.get("type") == "output_text" else {}
    return {"type": "output_text", "annotations": [], **same, "text": text}


# The items that a client has seen: where each stands, what it says, and the number of the next event.
# After a rollback the new call's message is merged into the one that is still open. Any other item gets the next free
# place; a message that the rollback left open ends before it, since clients expect one item at a time.
# Events that repeat a whole text are rewritten to what the client received, and sequence numbers run on.


@dataclass(slots=True)
class _Item:
    """An item that the client has seen begin: its place and id there, how it began, and its text so far."""

    place: int
    id: str
    began: Event
    texts: list[str] = field(default_factory=list)
    has_part: bool = False

    @property
    def at(self) -> Event:
        """Where its text is, in an event."""
        return {"output_index": self.place, "item_id": self.id, "content_index": 0}


class ClientItems:
    """The row of items of one answer, over as many calls as it takes. `done` has those that are complete."""

    def __init__(self) -> None:
        self.done: list[Event] = []
        self._number = 0
        self._begun = 0
        self._items: dict[int, _Item] = {}  # by index in the call
        self._message: _Item | None = None  # the message that is open ...
        self._is_left_open = False  # ... and whether the call that began it was severed

    def restart(self) -> None:
        """A new call numbers its items from 0."""
        self._items.clear()
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
            self._items[index] = self._message
            self._is_left_open = False
            return []
        closed = self.close_left_open()
        mine = self._items[index] = _Item(self._begun, str(item.get("id")), item)
        self._begun += 1
        if is_message:
            self._message = mine
        return [*closed, self.number({**event, "output_index": mine.place})]

    def close_left_open(self) -> list[Event]:
        """The events that end a message whose call was severed."""
        return self.close_message() if self._is_left_open else []

    def close_message(self) -> list[Event]:
        """The events that end the message that is open, if one is, with the text that the client has."""
        mine, self._message, self._is_left_open = self._message, None, False
        if mine is None:
            return []
        events: list[Event] = []
        content: list[Event] = []
        if mine.has_part:
            text = "".join(mine.texts)
            content = [{"type": "output_text", "text": text, "annotations": []}]
            events += [
                {"type": "response.output_text.done", **mine.at, "text": text, "logprobs": []},
                {"type": "response.content_part.done", **mine.at, "part": content[0]},
            ]
        item = {**mine.began, "status": "completed", "content": content}
        self.done.append(item)
        end = {"type": "response.output_item.done", "output_index": mine.place, "item": item}
        return [self.number(event) for event in (*events, end)]

    def say(self, text: str, id: str = "") -> list[Event]:
        """Words of ours, in the message that is open or in one of their own, which may have this id."""
        out: list[Event] = []
        if self._message is None:
            item = own_message(id or f"msg_{uuid4().hex}")
            begun = {"type": "response.output_item.added", "output_index": -1, "item": item}
            out += self.add(begun)
        mine = self._message or self._items[-1]
        if not mine.has_part:
            mine.has_part = True
            part = {"type": "output_text", "text": "", "annotations": []}
            out.append(
                self.number({"type": "response.content_part.added", **mine.at, "part": part})
            )
        mine.texts.append(text)
        delta = {"type": TEXT_DELTA, **mine.at, "delta": text, "logprobs": []}
        return [*out, self.number(delta)]

    def place(self, event: Event) -> list[Event]:
        """An event of an item, at the item's place and with the text that the client has."""
        mine = self._items.get(int(event["output_index"]), self._message)
        if mine is None:
            return [self.number(event)]
        event = {**event, "output_index": mine.place}
        if "item_id" in event:
            event["item_id"] = mine.id
        kind = str(event["type"])
        if kind == "response.content_part.added" and not event.get("content_index"):
            if mine.has_part:
                return []
            mine.has_part = True
        elif kind == TEXT_DELTA:
            mine.texts.append(event["delta"])
        elif kind.endswith(".done"):
            event = self._complete(event, mine)
        return [self.number(event)]

    def _complete(self, event: Event, mine: _Item) -> Event:
        """A done event with the text that the client really has; a message of several parts was never resumed."""
        text = "".join(mine.texts)
        if "item" in event:
            item, parts = {**event["item"], "id": mine.id}, event["item"].get("content")
            if mine.texts and isinstance(parts, list) and len(parts) == 1:
                item["content"] = [_replace_text(parts[0], text)]
            self.done.append(item)
            if self._message is mine:
                self._message = None
            return {**event, "item": item}
        if mine.texts and isinstance(event.get("text"), str):
            return {**event, "text": text}
        if mine.texts and "part" in event:
            return {**event, "part": _replace_text(event["part"], text)}
        return event


def own_message(id: str) -> Event:
    """A message of ours that begins."""
    head = {"type": "message", "id": id, "status": "in_progress"}
    return {**head, "role": "assistant", "content": []}


def _replace_text(part: Any, text: str) -> Any:  # noqa: ANN401  # a part, whatever the upstream sent
    """An output text with another text; the annotations point into the old one, so they are dropped."""
    if not isinstance(part, Mapping) or part.get("type") != "output_text":
        return part
    return part if part.get("text") == text else {**part, "text": text, "annotations": []}
