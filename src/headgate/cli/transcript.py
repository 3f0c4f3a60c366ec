"""`headgate guard --transcript FILE`: the circles of tool calls in recorded sessions, and what the ladder says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.cli.options import print_json
from headgate.cli.terminal import echo
from headgate.errors import NotFound
from headgate.guard.calls import Event, events_of
from headgate.guard.ladder import Mark, climb_events
from headgate.guard.policy import CirclesPolicy
from headgate.xray.files import Lines
from headgate.xray.formats import entries_of, session_of


def check_transcript(path: Path, policy: CirclesPolicy, *, as_json: bool) -> bool:
    """Print the circles of a recorded session; whether there were any."""
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="headgate guard --transcript FILE")
    conversations, skipped = read(path)
    found = {name: climb_events(messages, policy) for name, messages in conversations.items()}
    circles = sum(len(climb.marks) for climb in found.values())
    if as_json:
        print_json(
            {
                "sessions": [
                    {
                        "session": name,
                        "messages": len(conversations[name]),
                        "circles": [_row(mark) for mark in climb.marks],
                        "ended": climb.ended is not None,
                    }
                    for name, climb in found.items()
                ],
                "skipped": skipped,
            }
        )
        return circles > 0
    for name, climb in found.items():
        for mark in climb.marks:
            echo(f"{name} message {mark.at}: {mark.rung}: {mark.circle.describe()}")
    messages = sum(map(len, conversations.values()))
    echo(
        f"{circles} rungs reached in {len(found)} sessions, {messages} messages; {skipped} lines skipped",
        err=True,
    )
    return circles > 0


def _row(mark: Mark) -> dict[str, Any]:
    circle = mark.circle
    return {
        "message": mark.at, "rung": mark.rung, "period": circle.period, "copies": circle.copies, "first": circle.first,
        "last": circle.last, "what": circle.describe(), "tried": circle.tried,
    }  # fmt: skip


Conversation = list[Sequence[Event]]


def read(path: Path) -> tuple[dict[str, Conversation], int]:
    """The conversations of a file by name, each as the events of its messages, and how many lines were skipped."""
    source, found = Lines(path), dict[str, Conversation]()
    current, response = "", ""
    for line in source:
        for entry in entries_of(line):
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
