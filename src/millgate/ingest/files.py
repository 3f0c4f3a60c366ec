"""Files: files and folders into a store, and which of them need not be read again.

The list of added files lies beside the store, with the size and time of each when it was last added. It is derived:
without it every file is read, and its digest tells whether it changed. A file is taken as unchanged if its size and
time are those of the list and the store still holds its documents with the digests of the list. A file that was written
just before it was read is not listed: it may have been written once more within the same tick of its file system's
clock.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from millgate.ingest.child import ParserProcess
from millgate.ingest.load import LATER_STANDS, Kind, Loader, OnProgress, Summary
from millgate.ingest.policy import IngestPolicy
from millgate.ingest.readers import SourceFile, read
from millgate.ingest.rows import LINE, READ_FORMAT, ROW, Skip, Text
from millgate.ingest.tables import pack_rows
from millgate.ingest.walk import (
    beginnings_of,
    check_paths,
    document_id,
    stale_files,
    stale_parts,
    walk,
)
from millgate.protocols import DocumentStore
from millgate.text.turns import CONVERSATION

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


def add_files(
    store: DocumentStore,
    tenant: str,
    paths: Iterable[str | Path],
    *,
    collection: str = "main",
    kind: Kind = "",
    policy: IngestPolicy | None = None,
    root: Path | None = None,
    exclude: Iterable[str] = (),
    gitignore: bool = True,
    own_folder: Path | None = None,
    prune: bool = False,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Add files and folders, as `walk` finds them. What a file no longer holds goes.

    With `prune`, documents of files that are gone from a folder go too, and rows with ids of their own that are gone
    from their file. Rows that are packed go with their file's lines.
    `own_folder` is the folder of the store, which is never read.
    """
    policy = policy or IngestPolicy()
    paths = list(paths)
    check_paths(paths)
    places = [Path(path) for path in paths]
    loader = Loader(store, tenant, policy, on_progress, kind)
    found = list(walk(places, root=root, exclude=exclude, gitignore=gitignore, store=own_folder))
    loader.progress.total = sum(one.size for one in found)
    added = AddedFiles(own_folder, tenant, collection, kind, policy)
    unchanged = _unchanged_files(found, added, store.digests, tenant, collection)
    whole: dict[str, bool] = {}  # the files read to the end, and whether their rows are packed
    may_have_lost = False
    with ParserProcess() as parser:
        for one in found:
            if isinstance(one, Skip):
                loader.add(one)
            elif (documents := unchanged.get(one.id)) is not None:
                loader.progress.bytes += one.size
                loader.progress.unchanged += documents
            elif skip := added.skip_of(one):
                loader.add(skip)
            else:
                ending = _read_file(loader, one, collection, parser, added)
                may_have_lost |= ending.may_have_lost
                whole |= {one.id: ending.is_packed} if ending.is_whole else {}
    loader.flush()
    base = (root or Path.cwd()).resolve()
    folders = [document_id(place, base) for place in places if place.is_dir()]
    there = {one.id if isinstance(one, SourceFile) else one.what for one in found}
    missing = added.find_missing(folders, there)
    lost: list[str] = []
    if may_have_lost or prune:
        lost += stale_parts(
            store.digests(tenant, collection),
            read=whole,
            is_met=lambda name: hash((collection, name)) in loader.seen,
            prune=prune,
        )
    if prune:
        lost += stale_files(store.digests(tenant, collection), folders=folders, found=there)
        added.drop(missing)
    if lost:
        store.remove(tenant, collection, documents=lost)
        loader.progress.removed += len(lost)
    added.save()
    loader.skipped = _tell_what_stays(loader.skipped, partial(store.digests, tenant, collection))
    done = loader.finish()
    return done if prune else replace(done, missing=len(missing))


def _tell_what_stays(
    skipped: Iterable[Skip], digests: Callable[[list[str]], Mapping[str, str]]
) -> list[Skip]:
    """What was skipped; where the store holds a file's former text, the reason says so."""
    skips = list(skipped)
    known = digests([skip.what for skip in skips if not skip.reason.endswith(LATER_STANDS)])
    return [
        replace(skip, reason=f"{skip.reason}; the store keeps its former text")
        if skip.what in known
        else skip
        for skip in skips
    ]


def _unchanged_files(
    found: Iterable[SourceFile | Skip],
    added: AddedFiles,
    digests: Callable[[str, str, list[str]], Mapping[str, str]],
    tenant: str,
    collection: str,
) -> dict[str, int]:
    """How many documents each file has become that need not be read again, by the file's id."""
    listed = {
        one.id: documents
        for one in found
        if isinstance(one, SourceFile) and (documents := added.documents_of(one))
    }
    stored = digests(tenant, collection, [id for names in listed.values() for id in names])
    return {
        id: len(documents)
        for id, documents in listed.items()
        if all(stored.get(name) == mark for name, mark in documents.items())
    }


class _Ending(NamedTuple):
    """How the reading of a file ended.

    `is_whole`: all that it holds is known now. `may_have_lost`: it can have lost documents, as one of several (a .json
    file may have been), or one that is empty now. `is_packed`: it is a table whose short rows share documents.
    """

    is_whole: bool
    may_have_lost: bool
    is_packed: bool


def _read_file(
    loader: Loader, file: SourceFile, collection: str, parser: ParserProcess, added: AddedFiles
) -> _Ending:
    """Add everything that a file holds, and list it as added."""
    documents, skips, own_ids = dict[str, str](), list[Skip](), False
    before, may_have_lost, is_packed = loader.progress.skips, False, False
    max_bytes = loader.policy.max_bytes
    items = read(file, collection=collection, max_bytes=max_bytes, parser=parser)
    if loader.kind != CONVERSATION:
        items = pack_rows(items, file.id, loader.policy.chunk)
    for item in items:
        if isinstance(item, Text) and item.origin == ROW and not own_ids:
            pack = f"{file.id}:{item.line}"  # that the file began with when it was larger
            may_have_lost |= bool(loader.store.digests(loader.tenant, item.collection, [pack]))
        mark = loader.add(item)
        if isinstance(item, Skip):
            skips.append(item)
            continue
        documents[item.id] = mark
        own_ids |= item.origin == ROW
        is_packed |= item.packed > 0
        may_have_lost |= item.origin == LINE or file.path.suffix == ".json"
    if own_ids or (documents and skips) or len(skips) > 1:
        added.note(file, "")  # other files may hold the same ids; and each skip is to be told again
    else:
        added.note(file, documents or "".join(skip.reason for skip in skips))
    is_empty = not documents and all(skip.is_empty for skip in skips)
    is_whole = is_empty or loader.progress.skips == before
    return _Ending(is_whole, may_have_lost or is_empty, is_packed)
