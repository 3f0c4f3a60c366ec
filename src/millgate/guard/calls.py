"""Calls: the messages of a conversation as steps, whichever of the three APIs they belong to.

A step is a tool call with its result, or a text if the model only spoke. Some agents let the model write its commands
as code in its text, and send what came back as a user message of a fixed form (`Observation:`, `<returncode>`): that is
a call and its result too. Messages are read one by one in order, and
what is made of a message depends on that message and those before it alone. The calls of one turn become steps
together, in the order they were made, once all of them are answered: results of parallel calls come in any order. A
call without an answer is a step that never counts as a repeat. Results without a call, unknown types and anything
malformed are passed over.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from millgate.guard.steps import Step

Message = dict[str, Any]
Kind = Literal["call", "result", "text", "human", "turn"]

CALL_TYPES = frozenset({"tool_use", "function_call", "custom_tool_call", "local_shell_call", "computer_call"})  # fmt: skip
RESULT_TYPES = frozenset({"tool_result", "function_call_output", "custom_tool_call_output", "local_shell_call_output", "computer_call_output"})  # fmt: skip
_TEXTS = frozenset({"text", "input_text", "output_text"})
END_CHARS = 4_096  # of instructions, at both ends: reading all of 100 kB takes half a millisecond
_DIGITS = dict.fromkeys(map(ord, "0123456789"))
# What an agent's own program, not a person, puts into a user message.
_SPACE = re.compile(r"\s*+")
# How programs begin a message: a tag, or a label alone on its line.
_REPORT = re.compile(r"\s{0,8}(?:<[a-z_]{2,40}>|[A-Z][\w ]{1,30}:[ \t]{0,4}\n)")
# How they complain that the model's last words hold no command: the label is followed by a tag.
_COMPLAINT = re.compile(r"\s{0,8}(?:[A-Z][\w ]{1,30}:\s{1,8})?<[a-z_]{2,40}>")
_REMINDERS = ("system-reminder", "environment_context", "environment_details")


class Event(NamedTuple):
    """One part of a message: a call, a result, a text of the model, a person's message, or the start of a turn."""

    kind: Kind
    id: str = ""
    name: str = ""
    value: Any = None


TURN = Event("turn")
ENDING = "I stopped here, since I "  # how the message begins with which Millgate ends a turn
SHORT = 4  # messages
LAST = 40  # messages at the end in which the newest results and their calls stand; parallel ones are some apart
_LISTS = (list, tuple)


class Reader:
    """Reads a conversation message by message, in order."""

    def __init__(self) -> None:
        self._open: list[tuple[str, Step]] = []
        self._answered = 0
        self._command: Step | None = None  # code in the last words of the model
        self._said = ""  # the last words of the model

    def read(self, at: int, events: Iterable[Event]) -> list[Step | None]:
        """The steps that the message at that place, given as events, completes; None if a person spoke."""
        done: list[Step | None] = []
        for kind, id, name, value in events:
            if kind == "result":
                done += self._answer(id, value, at)
            elif kind == "call":
                if self._answered:
                    done += self._close()
                self._open.append((id, Step(name, value, at)))
            elif kind == "human":
                done += self._read_human(str(value), at)
            else:
                if self._open:
                    done += self._close()
                if kind == "text":
                    done.append(self._speak(str(value), at))
        return done

    def _speak(self, text: str, at: int) -> Step:
        """The model spoke: a step without a tool, and perhaps a command."""
        self._said, code = text, find_code(text)
        self._command = Step("code", {"code": code}, at) if code else None
        step = Step("")
        step.answer(text, at)
        return step

    def _read_human(self, text: str, at: int) -> list[Step | None]:
        """A user message: what came back of a command, a complaint about our own ending of a turn, or a person."""
        command, self._command = self._command, None
        if command is not None and _REPORT.match(text):
            command.answer(text, at)
            return [command]
        if self._said.startswith(ENDING) and _COMPLAINT.match(text):
            return []
        self._close()
        return [None]

    def _answer(self, id: str, value: object, at: int) -> list[Step]:
        for asked, step in self._open:
            if asked == id and not step.answered:
                step.answer(value, at)
                self._answered += 1
                return self._close() if self._answered == len(self._open) else []
        return []

    def _close(self) -> list[Step]:
        made, self._open, self._answered = self._open, [], 0
        if len(made) == 1:
            return [made[0][1]]
        # A call made twice in one turn was made before its result was seen: it counts once.
        return list({step.call: step for _, step in made}.values())


def events_of(message: object) -> Sequence[Event]:
    """The parts of a message of chat completions, messages or responses, in order."""
    if not isinstance(message, dict):
        return ()
    role = message.get("role")
    if role in ("tool", "function"):
        id = message.get("tool_call_id") or message.get("name")
        return (Event("result", _id(id), "", message.get("content")),)
    if role == "assistant":
        return _assistant(message)
    if role == "user":
        return _user(message)
    return _item(message)


def begins_turn(message: object) -> bool:
    """Whether what is made of a message does not depend on those before it, since the model begins to speak."""
    return isinstance(message, dict) and message.get("role") == "assistant"


def _assistant(message: Message) -> Sequence[Event]:
    content = message.get("content")
    events = [TURN]
    if content and not isinstance(content, str):
        events += [event for block in _blocks(content) for event in _item(block)]
    for call in _blocks(message.get("tool_calls")):
        made = call.get("function") or call.get("custom")
        if isinstance(made, dict):
            value = made["arguments"] if "arguments" in made else made.get("input")
            events.append(Event("call", _id(call.get("id")), str(made.get("name")), value))
    if isinstance(old := message.get("function_call"), dict):
        name = old.get("name")
        events.append(Event("call", _id(name), str(name), old.get("arguments")))
    if len(events) == 1 and content and (words := plain_text(content)):
        events.append(Event("text", value=words))
    return events


def find_code(text: str) -> str:
    """The last block of code in a text, in a fence or in <code>, "" if there is none."""
    for start, end in (("```", "```"), ("<code>", "</code>")):
        last = text.rfind(end)
        first = text.rfind(start, 0, last) if last > 0 else -1
        if first >= 0:
            block = text[first + len(start) : last]
            return block.partition("\n")[2] if start == end else block  # a fence names its language
    return ""


def is_report(message: object, before: object) -> bool:
    """Whether a user message tells what came back of code in the model's message before it."""
    if not (isinstance(message, dict) and message.get("role") == "user" and is_from_model(before)):
        return False
    assert isinstance(before, dict)
    text = plain_text(message.get("content"))
    return bool(_REPORT.match(text) and find_code(plain_text(before.get("content"))))


def _user(message: Message) -> Sequence[Event]:
    content = message.get("content")
    if isinstance(content, str):
        return (Event("human", value=content),) if _has_words(content) else ()
    blocks = list(_blocks(content))
    events = [event for block in blocks for event in _item(block)]
    others = [block for block in blocks if kind_of(block) not in RESULT_TYPES]
    words = plain_text(others)
    pictures = any(kind_of(block) not in _TEXTS for block in others)
    if pictures or _has_words(words):
        events.append(Event("human", value=words))
    return events


def _has_words(text: str) -> bool:
    """Whether a person wrote something; reminders that an agent's program put before it do not count."""
    at = 0
    while (at := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        tag = next((tag for tag in _REMINDERS if text.startswith(f"<{tag}>", at)), None)
        if tag is None:
            return True
        end = text.find(f"</{tag}>", at)
        if end < 0:
            break
        at = end + len(tag) + 3
    return False


def _item(item: Message) -> Sequence[Event]:
    """The event of a block or item that is a tool call or its result; nothing for any other."""
    kind = kind_of(item)
    if kind in CALL_TYPES:
        id = _id(item.get("call_id") or item.get("id"))
        names = ("input", "arguments", "action")
        value = next((item[name] for name in names if item.get(name) is not None), None)
        return (Event("call", id, str(item.get("name") or kind), value),)
    if kind in RESULT_TYPES:
        id = _id(item.get("call_id") or item.get("tool_use_id") or item.get("id"))
        return (Event("result", id, "", item.get("content", item.get("output"))),)
    return ()


def plain_text(content: object) -> str:
    """The plain text of a message's content."""
    if isinstance(content, str):
        return content
    parts = (block.get("text") for block in _blocks(content) if kind_of(block) in _TEXTS)
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def _blocks(content: object) -> Sequence[Message]:
    if not isinstance(content, _LISTS):
        return ()
    return [block for block in content if isinstance(block, dict)]


def opening(messages: Iterable[object]) -> str:
    """How a conversation begins, up to the first message of a person: the same in all its requests.

    Agents put the time of day into their instructions, so digits of these do not count.
    """
    texts: list[str] = []
    for message in messages:
        if isinstance(message, dict):
            text = plain_text(message.get("content"))
            is_instruction = message.get("role") in ("system", "developer")
            texts.append(without_digits(text) if is_instruction else text)
            if any(event.kind == "human" for event in events_of(message)):
                break
    return "\n".join(texts)


def without_digits(instructions: str) -> str:
    """Instructions as a conversation is known by them: both ends, without digits, since they may tell the time."""
    if len(instructions) > 2 * END_CHARS:
        instructions = instructions[:END_CHARS] + instructions[-END_CHARS:]
    return instructions.translate(_DIGITS)


def is_plain(messages: Sequence[object]) -> bool:
    """Whether a conversation is short and plain text alone, none of it the model's, as that of a first question."""
    return len(messages) <= SHORT and all(
        isinstance(message, dict)
        and message.keys() == {"role", "content"}
        and message["role"] in ("user", "system", "developer")
        and isinstance(message["content"], str)
        for message in messages
    )


def last_results(messages: Sequence[object]) -> tuple[tuple[str, str], ...]:
    """The tools whose results stand behind the model's last words, each with the id of its call; the oldest first."""
    tools: dict[str, str] = {}
    calls_seen = False
    for message in reversed(messages[-LAST:]):
        for event in reversed(events_of(message)):
            if event.kind == "call":
                calls_seen = True
                tools[event.id] = event.name if event.id in tools else ""
            elif event.kind == "result" and event.id and not calls_seen:
                tools[event.id] = ""
        if is_from_model(message) and (not calls_seen or all(tools.values())):
            break
    return tuple((name, id) for id, name in reversed(tools.items()) if name)


def is_from_model(message: object) -> bool:
    """Whether the model wrote a message or item."""
    if not isinstance(message, dict):
        return False
    kind = kind_of(message)
    return message.get("role") == "assistant" or kind.endswith("_call") or kind == "reasoning"


def kind_of(part: Message) -> str:
    """The type of a block or item, empty if it has none."""
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""


def _id(value: object) -> str:
    return value if isinstance(value, str) else ""
