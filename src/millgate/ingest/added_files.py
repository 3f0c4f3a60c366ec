"""Added files: the size and time of each file when it was last added, so that an unchanged one need not be read.

The list lies beside the store and is derived: without it every file is read, and its digest tells whether it changed. A
file is taken as unchanged if its size and time are those of the list and the store still holds its documents with the
digests of the list. A file that was written just before it was read is not listed: it may have been written once more
within the same tick of its file system's clock.
"""

import time
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from millgate.ingest.policy import IngestPolicy
from millgate.ingest.readers import SourceFile
from millgate.ingest.rows import READ_FORMAT, Skip
from millgate.ingest.walk import beginnings_of

NAME = "added_files.json"
MOST_DOCUMENTS = (
    1_000  # of a file that is listed; a file of more rows is read again, which is quick for rows
)
RECENT_NS = 2_000_000_000  # FAT keeps times to two seconds, other file systems to less


class AddedFiles:
    """The list in a store's folder, for one collection and one way of reading; without a folder it is empty."""

    def __init__(
        self, folder: Path | None, tenant: str, collection: str, kind: str, policy: IngestPolicy
    ) -> None:
        self._path = folder and folder / NAME
        limits = policy.max_bytes, policy.chunk.target, policy.chunk.maximum
        self._key = orjson.dumps([tenant, collection, kind, *limits]).decode()
        self._all = self._load()
        known = self._all.get(self._key)
        self._files: dict[str, Any] = known if isinstance(known, dict) else {}
        self._changed = False

    def skip_of(self, file: SourceFile) -> Skip | None:
        """The reason for which an unchanged file was skipped when it was last read; None if it was not."""
        known = self._find(file)
        return Skip(file.id, known[2], file.size) if known and isinstance(known[2], str) else None

    def documents_of(self, file: SourceFile) -> Mapping[str, str] | None:
        """The digests of the documents that an unchanged file became, by id; None if it must be read."""
        known = self._find(file)
        return known[2] if known and isinstance(known[2], dict) else None

    def note(self, file: SourceFile, outcome: Mapping[str, str] | str) -> None:
        """List a file with the documents that it became, or the reason for which it was skipped."""
        is_recent = time.time_ns() - file.modified_ns < RECENT_NS
        is_long = not isinstance(outcome, str) and len(outcome) > MOST_DOCUMENTS
        if is_recent or is_long or not outcome:
            self._changed |= self._files.pop(file.id, None) is not None
            return
        shown = outcome if isinstance(outcome, str) else dict(outcome)
        self._files[file.id] = [file.size, file.modified_ns, shown]
        self._changed = True

    def find_missing(self, folders: Iterable[str], found: Set[str]) -> list[str]:
        """The listed files in some folders that were not found there, and that have become documents."""
        beginnings = beginnings_of(folders)
        return [
            id
            for id, known in self._files.items()
            if id.startswith(beginnings) and id not in found and isinstance(known[2], dict)
        ]

    def drop(self, files: Iterable[str]) -> None:
        """Take files from the list."""
        for id in files:
            self._changed |= self._files.pop(id, None) is not None

    def save(self) -> None:
        """Write the list. If that fails, files are read once more: the store has everything."""
        if self._path is None or not self._changed:
            return
        self._all[self._key] = self._files
        beside = self._path.with_suffix(".new")
        with suppress(OSError):
            beside.touch(mode=0o600)
            beside.write_bytes(orjson.dumps(self._all))
            beside.replace(self._path)

    def _find(self, file: SourceFile) -> list[Any] | None:
        known = self._files.get(file.id)
        if not isinstance(known, list) or len(known) != 3:
            return None
        return known if known[:2] == [file.size, file.modified_ns] else None

    def _load(self) -> dict[str, Any]:
        try:
            value = orjson.loads(self._path.read_bytes()) if self._path else None
        except (OSError, orjson.JSONDecodeError):
            value = None
        if isinstance(value, dict) and value.get("format") == READ_FORMAT:
            return value
        return {"format": READ_FORMAT}
