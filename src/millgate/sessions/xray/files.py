"""Files: where recorded sessions are, and what their lines say, one by one.

Memory is bounded by one line: a longer one is passed over without being held. A line that is not JSON (half-written,
hostile, in a wrong encoding) is counted and skipped. Only regular files are read, and links to folders are not
followed.
"""

import gzip
import os
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import orjson

from millgate.errors import InputError, NotFound
from millgate.sessions.xray.formats import (
    Entry,
    LineReader,
    Message,
    kind_of_line,
    read_opencode,
    session_of,
)
from millgate.text.bounded_json import loads

MAX_LINE = 64 << 20
MOST_KINDS = 20  # kinds of lines that are told apart in one file
SUFFIXES = (".jsonl", ".ndjson", ".json")
PACKED = ".gz"  # behind one of them
OPENCODE = "opencode.db"
# Claude Code, Codex, Gemini CLI, OpenCode, pi
AGENT_FOLDERS = (".claude/projects", ".codex/sessions", ".gemini/tmp", ".local/share/opencode", ".pi/agent/sessions")  # fmt: skip


@dataclass
class Lines:
    """The lines of one file; how many there were, how many could not be read, and what became of the others."""

    path: Path
    read: int = 0
    skipped: int = 0
    size: int = 0
    understood: int = 0
    """Entries that its lines gave."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """Lines that gave none, by what they call themselves."""

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """What the file says, each with the name of its session; "" if nothing names one."""
        session = ""
        for entry in self._read_database() if self.path.suffix == ".db" else self._read_lines():
            self.understood += 1
            session = session_of(entry) or session
            yield session, entry

    def __iter__(self) -> Iterator[Any]:
        is_document = self.path.name.removesuffix(PACKED).endswith(".json")
        opened = gzip.open if self.path.suffix == PACKED else open
        try:
            with opened(self.path, "rb") as source:
                yield from (
                    self._parse_document(source) if is_document else self._parse_lines(source)
                )
        except (OSError, EOFError, zlib.error):
            self.skipped += 1

    def _read_lines(self) -> Iterator[Entry]:
        reader = LineReader()
        for line in self:
            try:
                entries = reader.read(line)
            except RecursionError:  # a line nested deeper than Python goes
                self.skipped += 1
                continue
            if not entries:
                kind = kind_of_line(line)
                known = kind in self.passed_over or len(self.passed_over) < MOST_KINDS
                self.passed_over[kind if known else "other"] += 1
            yield from entries

    def _read_database(self) -> Iterator[Entry]:
        try:
            self.size += self.path.stat().st_size
            for entry in read_opencode(self.path):
                self.read += 1
                yield entry
        except (OSError, sqlite3.Error):
            self.skipped += 1

    def _parse_document(self, source: BufferedIOBase) -> Iterator[Any]:
        """Read a file that is one JSON value; a list gives its elements."""
        for value in self._parse(source.read(MAX_LINE + 1)):
            yield from value if isinstance(value, list) else [value]

    def _parse_lines(self, source: BufferedIOBase) -> Iterator[Any]:
        while line := source.readline(MAX_LINE):
            if len(line) < MAX_LINE or line.endswith(b"\n"):
                if not line.isspace():
                    yield from self._parse(line)
                continue
            self.skipped += 1
            while (more := source.readline(MAX_LINE)) and not more.endswith(b"\n"):
                pass

    def _parse(self, data: bytes) -> Iterator[Any]:
        self.size += len(data)
        try:
            value = loads(data)
        except orjson.JSONDecodeError:
            self.skipped += 1
            return
        self.read += 1
        yield value


@dataclass(slots=True)
class Recorded:
    """One recorded session as the guard would have met it, message by message."""

    messages: list[Message] = field(default_factory=list)
    continues: set[int] = field(default_factory=set)
    """The messages that go on with the model's answer before them: some programs write one as several lines."""


def read_conversations(path: Path) -> tuple[dict[str, Recorded], int]:
    """Read the conversations of a file by name, and count the lines skipped."""
    source, found, response = Lines(path), dict[str, Recorded](), ""
    for session, entry in source.entries():
        one = found.setdefault(session or path.stem, Recorded())
        if entry.snapshot is not None:  # each request of a log holds the conversation so far
            one.messages[:] = entry.snapshot
        elif entry.message is not None:
            if entry.response and entry.response == response:
                one.continues.add(len(one.messages))
            one.messages.append(entry.message)
            response = entry.response or response
    return {name: one for name, one in found.items() if one.messages}, source.skipped


def find(path: str | Path | None, *, home: Path) -> list[Path]:
    """The session files at a path, oldest first; without one, those of the agents that are known, under the home."""
    place = Path(path or home)
    if path is not None and place.is_file():
        return [place]
    if path is not None and not place.is_dir():
        raise NotFound(f"there is no file or folder {place}", hint="millgate xray PATH")
    folders = [place] if path is not None else [home / folder for folder in AGENT_FOLDERS]
    found = sorted((file for folder in folders for file in _walk(folder)), key=_age_key)
    if found:
        return found
    if path is None:
        raise NotFound(
            f"no recorded sessions under {home}: looked in {', '.join(AGENT_FOLDERS)}",
            hint="name a file or folder: millgate xray PATH",
        )
    raise InputError(
        f"{place} holds no session files",
        hint=f"they end in {', '.join(SUFFIXES)}, with {PACKED} behind it or not, or are OpenCode's {OPENCODE}",
    )


def _walk(folder: Path) -> Iterator[Path]:
    for top, _, names in os.walk(folder):
        for name in names:
            file = Path(top, name)
            is_session = Path(name.removesuffix(PACKED)).suffix in SUFFIXES or name == OPENCODE
            if is_session and file.is_file():
                yield file


def _age_key(file: Path) -> tuple[float, str]:
    try:
        return file.stat().st_mtime, str(file)
    except OSError:
        return 0.0, str(file)
