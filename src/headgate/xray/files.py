"""Files: where recorded sessions are, and their lines one by one.

Memory is bounded by one line: a longer one is passed over without being held. A line that is not JSON (half-written,
hostile, in a wrong encoding) is counted and skipped. Only regular files are read, and links to folders are not
followed.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from headgate.errors import InputError, NotFound
from headgate.text.bounded_json import loads

MAX_LINE = 64 << 20
SUFFIXES = (".jsonl", ".ndjson", ".json")


@dataclass
class Lines:
    """The lines of one file, and how many there were and could not be read."""

    path: Path
    read: int = 0
    skipped: int = 0
    size: int = 0

    def __iter__(self) -> Iterator[Any]:
        try:
            with self.path.open("rb") as source:
                if self.path.suffix == ".json":
                    yield from self._document(source)
                else:
                    yield from self._lines(source)
        except OSError:
            self.skipped += 1

    def _document(self, source: BinaryIO) -> Iterator[Any]:
        """Read a file that is one JSON value; a list gives its elements."""
        data = source.read(MAX_LINE + 1)
        for value in self._parse(data, orjson.loads):
            if isinstance(value, list):
                yield from value
            else:
                yield value

    def _lines(self, source: BinaryIO) -> Iterator[Any]:
        while line := source.readline(MAX_LINE):
            if len(line) < MAX_LINE or line.endswith(b"\n"):
                if not line.isspace():
                    yield from self._parse(line, loads)
                continue
            self.skipped += 1
            while (more := source.readline(MAX_LINE)) and not more.endswith(b"\n"):
                pass

    def _parse(self, data: bytes, read: Callable[[bytes], Any]) -> Iterator[Any]:
        self.size += len(data)
        try:
            value = read(data)
        except orjson.JSONDecodeError:
            self.skipped += 1
            return
        self.read += 1
        yield value


def find(path: str | Path | None, *, home: Path) -> list[Path]:
    """The session files at a path, oldest first; without one, those of Claude Code and Codex under the home folder."""
    if path is None:
        folders = [home / ".claude" / "projects", home / ".codex" / "sessions"]
        found = [file for folder in folders for file in _walk(folder)]
        if not found:
            raise NotFound(
                f"no recorded sessions under {folders[0]} or {folders[1]}",
                hint="name a file or folder: headgate xray PATH",
            )
        return sorted(found, key=_age_key)
    place = Path(path)
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise NotFound(f"there is no file or folder {place}", hint="headgate xray PATH")
    found = sorted(_walk(place), key=_age_key)
    if not found:
        raise InputError(
            f"{place} holds no session files", hint=f"they end in {', '.join(SUFFIXES)}"
        )
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for top, _, names in os.walk(folder):
        for name in names:
            file = Path(top, name)
            if file.suffix in SUFFIXES and file.is_file():
                yield file


def _age_key(file: Path) -> tuple[float, str]:
    try:
        return file.stat().st_mtime, str(file)
    except OSError:
        return 0.0, str(file)
