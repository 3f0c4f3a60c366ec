"""Turns: what a person said in a user message, and where a block of context goes in it.

Agents put words of their own into user messages: tool results, and reminders wrapped in one XML element
(`<system-reminder>...</system-reminder>`, `<environment_context>...`). Neither is what the person asked.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from millgate.guard.resume import Message, text_part

RESULTS = ("tool_result", "function_call_output")
_element = re.compile(r"\s*+<([A-Za-z][\w-]*)[\s>]")


def human_text(message: Message) -> str:
    """The words of a person in a user message; nothing for other roles, tool results and reminders."""
    if message.get("role") != "user" or message.get("type") not in (None, "message"):
        return ""
    content = message.get("content", message.get("parts"))
    return "\n".join(text for text in _texts(content) if not _is_element(text))


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [
        part["text"]
        for part in parts
        if isinstance(part, Mapping)
        and part.get("type") in ("text", "input_text", None)  # None: Gemini's own parts
        and isinstance(part.get("text"), str)
    ]


def _is_element(text: str) -> bool:
    """Whether a text is one XML element from its first word to its last."""
    opening = _element.match(text)
    return bool(opening) and text.rstrip().endswith(f"</{opening[1]}>")  # type: ignore[index]


def add_block(message: Message, block: str) -> Message:
    """A user message with the block in front of its words, and behind the tool results that it brings."""
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": f"{block}\n\n{content or ''}"}
    return {**message, "content": insert_part(content, block)}


def insert_part(content: Sequence[Any], block: str) -> list[Any]:
    """The parts of a message with the block among them."""
    results = [at for at, part in enumerate(content) if _type(part) in RESULTS]
    at = results[-1] + 1 if results else 0
    return [*content[:at], text_part(block, content), *content[at:]]


def _type(part: object) -> str:
    return str(part.get("type")) if isinstance(part, Mapping) else ""
