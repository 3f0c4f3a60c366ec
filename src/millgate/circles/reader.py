"""Calls: the messages of a conversation as actions, whichever API they belong to.

An action is a tool call with its result, or a text if the model only spoke; code in the words of the model is a call
too, if a program reports on it. Messages are read one by one in order, and what is made of a message depends on that
message and those before it alone. The calls of one turn become actions together, in the order they were made, once all
of them are answered: results of parallel calls come in any order. A call without an answer is an action that never
counts as a repeat. Results without a call and anything unknown are passed over.
"""

import re
from collections.abc import Iterable, Sequence

from millgate.circles.action import Action
from millgate.transcript.parts import (
    CODE,
    Part,
    find_command,
    is_from_model,
    is_from_person,
    join_texts,
    read,
)

END_CHARS = 4_096  # of instructions, at both ends: reading all of 100 kB takes half a millisecond
_DIGITS = dict.fromkeys(map(ord, "0123456789"))
# How programs complain that the model's last words hold no command: the label is followed by a tag.
_COMPLAINT = re.compile(r"\s{0,8}(?:[A-Z][\w ]{1,30}:\s{1,8})?<[a-z_]{2,40}>")
ENDING = "I stopped here, since I "  # how the message begins with which Millgate ends a turn
SHORT = 4  # messages
LAST = 40  # messages at the end in which the newest results and their calls stand; parallel ones are some apart
_SAID = ("system", "human", "summary", "text")
_SUMMARIES = ("summary", "compaction")


class Reader:
    """Reads a conversation message by message, in order."""

    def __init__(self) -> None:
        self._before: object = None
        self._open: list[tuple[str, Action]] = []
        self._answered = 0
        self._command: Action | None = None  # code in the last words of the model
        self._said = ""  # the last words of the model

    def read(self, at: int, message: object, *, continues: bool = False) -> list[Action | None]:
        """The actions that the message at that place completes; None if a person spoke.

        `continues`: it goes on with the model's turn before it.
        """
        parts, before, self._before = read(message, self._before), self._before, message
        done: list[Action | None] = []
        words = self._find_words(parts) if begins_turn(message) else ""
        if words or (begins_turn(message) and not continues):
            done += self._close()
        if words:
            done.append(self._speak(words, parts, at))
        # the calls of one message are made before any result is seen, also where each stands with its own
        for part in sorted(join_texts(parts), key=lambda part: part.kind == "result"):
            if part.kind == "call":
                if self._answered:
                    done += self._close()
                self._open.append((part.id, Action(part.tool, part.arguments, at)))
            elif part.kind == "result":
                done += self._answer(part, parts, at)
        return done + self._read_person(message, before, parts)

    def _find_words(self, parts: Sequence[Part]) -> str:
        """What the model says in a message in which it calls nothing."""
        if any(part.kind == "call" for part in parts):
            return ""
        return "\n".join(part.text for part in parts if part.kind == "text")

    def _speak(self, words: str, parts: Sequence[Part], at: int) -> Action:
        """The model spoke: an action without a tool, and perhaps a command."""
        self._said, code = words, find_command(parts)
        self._command = Action(CODE, {CODE: code}, at) if code else None
        action = Action("")
        action.answer(words, at)
        return action

    def _read_person(
        self, message: object, before: object, parts: Sequence[Part]
    ) -> list[Action | None]:
        """None if a person spoke; a complaint about our own ending of a turn is a program's."""
        if not is_from_person(message, before):
            return []
        self._command = None
        asked = "\n".join(part.text for part in parts if part.kind == "human")
        if self._said.startswith(ENDING) and _COMPLAINT.match(asked):
            return []
        self._close()
        return [None]

    def _answer(self, result: Part, parts: Sequence[Part], at: int) -> list[Action]:
        if result.tool == CODE:
            command, self._command = self._command, None
            if command is None:
                return []
            command.answer(result.text, at)
            return [command]
        shown = (f"[image {p.text}]" for p in parts if p.kind == "image" and p.id == result.id)
        for asked, action in self._open:
            if asked == result.id and not action.answered:
                action.answer("\n".join((result.text, *shown)), at)
                self._answered += 1
                return self._close() if self._answered == len(self._open) else []
        return []

    def _close(self) -> list[Action]:
        made, self._open, self._answered = self._open, [], 0
        if len(made) == 1:
            return [made[0][1]]
        # A call made twice in one turn was made before its result was seen: it counts once.
        return list({action.call: action for _, action in made}.values())


def begins_turn(message: object) -> bool:
    """Whether what is made of a message does not depend on those before it, since the model begins to speak."""
    return isinstance(message, dict) and message.get("role") in ("assistant", "model")


def opening(messages: Iterable[object]) -> str:
    """How a conversation begins, up to the first message of a person or a summary: the same in all its requests.

    Agents put the time of day into their instructions, so digits of these do not count.
    """
    texts: list[str] = []
    for message in messages:
        if isinstance(message, dict):
            parts = read(message)
            text = "\n".join(part.text for part in parts if part.kind in _SAID)
            is_instruction = message.get("role") in ("system", "developer")
            texts.append(without_digits(text) if is_instruction else text)
            if is_from_person(message) or any(part.kind in _SUMMARIES for part in parts):
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
        for part in reversed(read(message)):
            if part.kind == "call":
                calls_seen = True
                tools[part.id] = part.tool if part.id in tools else ""
            elif part.kind == "result" and part.id and not calls_seen:
                tools[part.id] = ""
        if is_from_model(message) and (not calls_seen or all(tools.values())):
            break
    return tuple((name, id) for id, name in reversed(tools.items()) if name)
