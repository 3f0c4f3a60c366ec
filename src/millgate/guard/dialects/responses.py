"""Responses: OpenAI's responses, the one API that Codex speaks.

The client's stream is a row of items (client_items.py). Items other than messages pass as they are, encrypted reasoning
included. A reasoning item that was severed never ends, and is not in the final output: it could not be sent back. The
response keeps the id of its first call.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from millgate.errors import MillgateError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from millgate.guard.dialects.client_items import TEXT_DELTA, ClientItems, own_message
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
        event = piece.raw
        if event is None:
            event = {**self._deltas[piece.channel], "delta": piece.text}
        kind = event.get("type")
        if kind in BEGIN:
            return self._begin(event)
        if kind in END:
            closed = self._items.close_left_open()
            whole = self._whole(event["response"])
            return [*closed, self._items.number({**event, "response": whole})]
        if kind == "response.output_item.added":
            return self._items.add(event)
        if "output_index" not in event:
            return [self._items.number(event)]
        return self._items.place(event)

    def finish(self, ended: str, said: str = "") -> list[Event]:
        """The last words, the end of the message that is open, and response.completed, whose output says the rest."""
        words = self._items.say(said) if said else []
        words += self._items.close_message()
        response = {**self._first, "status": "completed", "output": list(self._items.done)}
        response["usage"] = self.estimate_usage(0, 0)
        return [*words, self._items.number({"type": "response.completed", "response": response})]

    def is_error(self, event: Event) -> bool:
        """Whether an event tells of an error; a failed response is an end like others."""
        return event.get("type") == "error"

    def estimate_usage(self, input_tokens: int, output_tokens: int) -> Usage:
        return {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens + output_tokens,
        }

    def _note_id(self, event: Event) -> None:
        first, last = self.answer_ids
        last = str((event.get("response") or {}).get("id") or last)
        self.answer_ids = (first or last, last)

    def _begin(self, event: Event) -> list[Event]:
        if self.calls > 1:
            return []
        self._first = event.get("response") or {}
        return [self._items.number(event)]

    def _whole(self, response: Event) -> Event:
        """The final response as the client saw it come: the id of the first call, all items."""
        if self.calls <= 1:
            return response
        return {**response, "id": self._first.get("id"), "output": list(self._items.done)}

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
            id, part = f"msg_{first.get('id')}", _message_part({}, texts[CONTENT])
            message = {"id": id, "type": "message", "role": "assistant", "status": "completed"}
            output.insert(0, {**message, "content": [part]})
        same = pick(first, "id", "created_at", "model")
        return {**answer, "output": output, **same}

    # Answers of our own

    def own_answer(self, answer: OwnAnswer) -> Event:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        return {
            "id": f"resp_{answer.id}",
            "object": "response",
            "created_at": answer.created,
            "status": "completed",
            "model": answer.model,
            "output": [
                {**own_message(f"msg_{answer.id}"), "status": "completed", "content": [part]}
            ],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": self.estimate_usage(0, 0),
        }

    def own_events(self, answer: OwnAnswer, fields: Fields) -> list[Event]:  # usage is always told
        whole = self.own_answer(answer)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        items, whole_item = self._items, whole["output"][0]
        return [
            items.number({"type": "response.created", "response": begun}),
            items.number({"type": "response.in_progress", "response": begun}),
            *items.say(answer.text, whole_item["id"]),
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


def _message_part(item: Event, text: str) -> Event:
    parts = item.get("content")
    first = parts[0] if isinstance(parts, list) and parts else {}
    same = first if isinstance(first, dict) and first.get("type") == "output_text" else {}
    return {"type": "output_text", "annotations": [], **same, "text": text}
