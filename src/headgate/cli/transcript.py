"""`headgate guard --transcript FILE`: the circles of tool calls in recorded sessions, and what the ladder says."""

from pathlib import Path
from typing import Any

from headgate.cli.options import print_json
from headgate.cli.terminal import echo
from headgate.errors import NotFound
from headgate.guard.ladder import Mark, climb_events
from headgate.guard.policy import CirclesPolicy
from headgate.xray.transcript import read


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
