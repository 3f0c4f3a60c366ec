"""Codex's sessions: the base instructions stand in `session_meta`, and newer models get them as a message too.

One request holds them once, so they count once.
"""

from typing import Any

from millgate.sessions.xray.formats import Entry, entries_of
from millgate.transcript.parts import read


class CodexReader:
    """One session file, line by line."""

    def __init__(self) -> None:
        self._base = ""  # base instructions that stand in the window

    def entries(self, line: dict[str, Any]) -> list[Entry] | None:
        """What a line says; None if it is not Codex's, or cannot hold instructions."""
        kind = line.get("type")
        if not isinstance(line.get("payload"), dict):
            return None
        if kind == "compacted":
            self._base = ""
        if kind not in ("session_meta", "response_item"):
            return None
        return [self._once(entry, begins=kind == "session_meta") for entry in entries_of(line)]

    def _once(self, entry: Entry, *, begins: bool) -> Entry:
        message = entry.message or {}
        if message.get("role") not in ("system", "developer"):
            return entry
        text = "\n".join(part.text for part in read(message))
        if text and text == self._base:
            return Entry(time=entry.time)
        if begins:
            self._base = text
        return entry
