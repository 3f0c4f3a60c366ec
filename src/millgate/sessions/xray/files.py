"""Files: where recorded sessions are, and their lines one by one.

Memory is bounded by one line: a longer one is passed over without being held. A line that is not JSON (half-written,
hostile, in a wrong encoding) is counted and skipped. Only regular files are read, and links to folders are not
followed.
"""

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import orjson

from millgate.errors import InputError, NotFound
from millgate.text.bounded_json import loads

MAX_LINE = 64 << 20
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

    def __iter__(self) -> Iterator[Any]:
        try:
            with (
                gzip.open(self.path)
                if self.path.suffix == PACKED
                else self.path.open("rb") as source
            ):
                if self.path.name.removesuffix(PACKED).endswith(".json"):
                    yield from self._document(source)
                else:
                    yield from self._lines(source)
        except (OSError, EOFError, zlib.error):
            self.skipped += 1

    def _document(self, source: BufferedIOBase) -> Iterator[Any]:
        """Read a file that is one JSON value; a list gives its elements."""
        data = source.read(MAX_LINE + 1)
        for value in self._parse(data):
            if isinstance(value, list):
                yield from value
            else:
                yield value

    def _lines(self, source: BufferedIOBase) -> Iterator[Any]:
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


def find(path: str | Path | None, *, home: Path) -> list[Path]:
    """The session files at a path, oldest first; without one, those of the agents that are known, under the home."""
    if path is None:
        folders = [home / folder for folder in AGENT_FOLDERS]
        found = [file for folder in folders for file in _walk(folder)]
        if not found:
            raise NotFound(
                f"no recorded sessions under {home}: looked in {', '.join(AGENT_FOLDERS)}",
                hint="name a file or folder: millgate xray PATH",
            )
        return sorted(found, key=_age_key)
    place = Path(path)
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise NotFound(f"there is no file or folder {place}", hint="millgate xray PATH")
    found = sorted(_walk(place), key=_age_key)
    if not found:
        raise InputError(
            f"{place} holds no session files",
            hint=f"they end in {', '.join(SUFFIXES)}, with {PACKED} behind it or not, or are OpenCode's {OPENCODE}",
        )
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for top, _, names in os.walk(folder):
        for name in names:
            file = Path(top, name)
            if (
                Path(name.removesuffix(PACKED)).suffix in SUFFIXES or name == OPENCODE
            ) and file.is_file():
                yield file


def _age_key(file: Path) -> tuple[float, str]:
    try:
        return file.stat().st_mtime, str(file)
    except OSError:
        return 0.0, str(file)
