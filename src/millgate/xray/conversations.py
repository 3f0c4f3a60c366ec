"""Conversations: recorded sessions as the guard would have met them, message by message."""

from collections.abc import Sequence
from pathlib import Path

from millgate.guard.calls import Event, events_of
from millgate.xray.entries import read_entries
from millgate.xray.files import Lines
from millgate.xray.formats import session_of

Conversation = list[Sequence[Event]]


def read_conversations(path: Path) -> tuple[dict[str, Conversation], int]:
    """Read the conversations of a file by name, each as the events of its messages; and count the lines skipped."""
    source, found = Lines(path), dict[str, Conversation]()
    current, response = "", ""
    for entry in read_entries(source):
        current = session_of(entry) or current
        messages = found.setdefault(current or path.stem, [])
        if entry.snapshot is not None:
            messages[:] = map(events_of, entry.snapshot)
        elif entry.message is not None:
            events = events_of(entry.message)
            if entry.response and entry.response == response:
                events = [event for event in events if event.kind != "turn"]
            messages.append(events)
            response = entry.response or response
    return {name: messages for name, messages in found.items() if messages}, source.skipped
