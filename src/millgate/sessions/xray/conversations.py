"""Conversations: recorded sessions as the guard would have met them, message by message."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millgate.sessions.xray.entries import read_entries
from millgate.sessions.xray.files import Lines
from millgate.sessions.xray.formats import session_of


@dataclass(slots=True)
class Conversation:
    """One recorded session."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    continues: set[int] = field(default_factory=set)
    """The messages that go on with the model's answer before them: some programs write one as several lines."""


def read_conversations(path: Path) -> tuple[dict[str, Conversation], int]:
    """Read the conversations of a file by name, and count the lines skipped."""
    source, found = Lines(path), dict[str, Conversation]()
    current, response = "", ""
    for entry in read_entries(source):
        current = session_of(entry) or current
        conversation = found.setdefault(current or path.stem, Conversation())
        if entry.snapshot is not None:
            conversation.messages[:] = entry.snapshot
        elif entry.message is not None:
            if entry.response and entry.response == response:
                conversation.continues.add(len(conversation.messages))
            conversation.messages.append(entry.message)
            response = entry.response or response
    return {name: one for name, one in found.items() if one.messages}, source.skipped
