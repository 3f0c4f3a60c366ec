"""Chats: recorded conversations as texts of `user: …` and `assistant: …` turns.

Three kinds of files hold them: exports with a list of `messages` on each line, the transcripts that `millgate xray`
reads (Claude Code, Codex, Gemini CLI, pi and logs of requests), and what ChatGPT and Claude export. Only what was said
is taken: results of tools are mostly files that can be added themselves, and instructions are no conversation.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from millgate.sessions.xray.files import Lines, read_conversations
from millgate.sessions.xray.formats import LineReader, text_of
from millgate.transcript.parts import read

_LOOKED_AT = 20  # lines of a file from which its kind is told; agents write a few of their own before the first message
_SPEAKERS = {"user": "user", "human": "user", "assistant": "assistant", "model": "assistant"}


class Chat(NamedTuple):
    """One conversation: its title, which most have not, and its turns."""

    title: str
    text: str


def is_chat(path: Path) -> bool:
    """Whether a file of JSON holds conversations, and not rows with a text of their own."""
    reader = LineReader()
    for line in islice(Lines(path), _LOOKED_AT):
        if not isinstance(line, dict) or isinstance(line.get("text", line.get("content")), str):
            continue
        if _exported_messages(line):
            return True
        if any(entry.message or entry.snapshot for entry in reader.read(line)):
            return True
    return False


def read_chats(path: Path) -> tuple[list[Chat], int]:
    """The conversations of a file, in the order in which they begin, and how many of its lines are no valid JSON."""
    lines = Lines(path)
    exported = [chat for line in lines if (chat := _exported_chat(line)) is not None]
    if exported:
        return [chat for chat in exported if chat.text], lines.skipped
    found, _ = read_conversations(path)
    chats = (Chat("", _turns(one.messages)) for one in found.values())
    return [chat for chat in chats if chat.text], lines.skipped


def _turns(messages: Iterable[Mapping[str, Any]]) -> str:
    """The turns of a conversation, a blank line between them."""
    return "\n\n".join(
        f"{speaker}: {said}"
        for message in messages
        if (speaker := _SPEAKERS.get(text_of(message.get("role")))) and (said := _words_of(message))
    )


def _words_of(message: Mapping[str, Any]) -> str:
    """What is said in a message, without calls, results and thinking."""
    said = (p.text for p in read(message) if p.kind in ("human", "system", "summary", "text"))
    return "\n".join(said).strip()


def _exported_chat(line: object) -> Chat | None:
    """A conversation that ChatGPT or Claude exported; None for another line."""
    if not isinstance(line, dict) or not (messages := _exported_messages(line)):
        return None
    return Chat(text_of(line.get("title") or line.get("name")), _turns(messages))


def _exported_messages(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    match line:
        case {"mapping": {**nodes}}:
            for node in nodes.values():
                match node:
                    case {"message": {"author": {"role": role}, "content": {"parts": [*parts]}}}:
                        said = "\n".join(part for part in parts if isinstance(part, str))
                        found.append({"role": role, "content": said})
        case {"chat_messages": [*messages]}:
            for message in messages:
                if isinstance(message, dict):
                    words = message.get("text") or message.get("content")
                    found.append({"role": message.get("sender"), "content": words})
    return found
