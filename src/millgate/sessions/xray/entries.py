"""Entries: what a file of recorded sessions says, one after the other, whichever program wrote it."""

import sqlite3
from collections.abc import Iterator, Sequence

from millgate.sessions.xray.files import Lines
from millgate.sessions.xray.formats import CodexReader, Entry, entries_of, kind_of_line
from millgate.sessions.xray.gemini import GeminiReader
from millgate.sessions.xray.opencode import SUFFIX, read_database

MOST_KINDS = 50  # kinds of lines that are told apart in one file


def read_entries(source: Lines) -> Iterator[Entry]:
    """The entries of a file; what gave none is counted in `source`."""
    if source.path.suffix == SUFFIX:
        yield from _database(source)
        return
    readers = (GeminiReader(), CodexReader())
    for line in source:
        try:
            entries = _read_line(line, readers)
        except RecursionError:  # a line nested deeper than Python goes
            source.skipped += 1
            continue
        if not entries:
            kind = kind_of_line(line)
            known = kind in source.passed_over or len(source.passed_over) < MOST_KINDS
            source.passed_over[kind if known else "other"] += 1
        source.understood += len(entries)
        yield from entries


def _read_line(line: object, readers: Sequence[GeminiReader | CodexReader]) -> list[Entry]:
    """What a line says to the first reader that knows it; else what it says by itself."""
    if isinstance(line, dict):
        for reader in readers:
            if (found := reader.entries(line)) is not None:
                return list(found)
    return list(entries_of(line))


def _database(source: Lines) -> Iterator[Entry]:
    try:
        source.size += source.path.stat().st_size
        for entry in read_database(source.path):
            source.read += 1
            source.understood += 1
            yield entry
    except (OSError, sqlite3.Error):
        source.skipped += 1
