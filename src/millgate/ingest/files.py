"""Files: files and folders into a store, and which of them need not be read again.

The list of added files lies beside the store. It has the size and time of each when it was last added, the documents
that it became, and what of it was skipped. A file is unchanged if its size and time are those of the list and the store
still holds its documents with the digests of the list. The list is derived: without it every file is read, and the
digests tell what changed. Two kinds of files are not listed: one that was written just before it was read may have been
written once more within the same tick of its file system's clock, and rows with ids of their own may stand in other
files too.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from millgate.ingest.child import ParserProcess
from millgate.ingest.load import LATER_STANDS, Kind, Loader, OnProgress, Summary
from millgate.ingest.policy import IngestPolicy
from millgate.ingest.readers import SourceFile, read
from millgate.ingest.rows import READ_FORMAT, ROW, Skip, file_of
from millgate.ingest.tables import pack_rows
from millgate.ingest.walk import check_paths, document_id, walk
from millgate.protocols import DocumentStore
from millgate.text.turns import CONVERSATION

NAME = "added_files.json"
# of a file that is listed; a file of more rows is read again, which is quick for rows
MOST_DOCUMENTS = 1_000
RECENT_NS = 2_000_000_000  # FAT keeps times to two seconds, other file systems to less


class AddedFiles:
    """The list in a store's folder, for one collection and one way of reading; without a folder it is empty."""

    def __init__(self, folder: Path | None, *key: object) -> None:
        self._path = folder and folder / NAME
        self._all: dict[str, Any] = {}
        with suppress(OSError, orjson.JSONDecodeError):
            self._all = orjson.loads(self._path.read_bytes()) if self._path else {}
        if self._all.get("format") != READ_FORMAT:
            self._all = {"format": READ_FORMAT}
        # size, time, digests of documents by id, and what was skipped with its reason, by the file's id
        self.files: dict[str, Any] = self._all.setdefault(orjson.dumps(key).decode(), {})

    def note(
        self, file: SourceFile, documents: dict[str, str], skips: list[Skip], *, own_ids: bool
    ) -> None:
        """List a file that was read just now, unless that would not say what it holds."""
        self.files.pop(file.id, None)
        told = [(skip.what, skip.reason, skip.size) for skip in skips]
        is_recent = time.time_ns() - file.modified_ns < RECENT_NS
        if not (own_ids or is_recent) and len(documents) + len(told) <= MOST_DOCUMENTS:
            self.files[file.id] = [file.size, file.modified_ns, documents, told]

    def save(self) -> None:
        """Write the list. If that fails, files are read once more: the store has everything."""
        if self._path is not None:
            beside = self._path.with_suffix(".new")
            with suppress(OSError):
                beside.touch(mode=0o600)
                beside.write_bytes(orjson.dumps(self._all))
                beside.replace(self._path)


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
    loader = Loader(store, tenant, collection, policy, on_progress, kind)
    found = list(walk(places, root=root, exclude=exclude, gitignore=gitignore, store=own_folder))
    loader.progress.total = sum(one.size for one in found)
    limits = policy.max_bytes, policy.chunk.target, policy.chunk.maximum
    added = AddedFiles(own_folder, tenant, collection, kind, *limits)
    files = [one for one in found if isinstance(one, SourceFile)]
    listed = {
        file.id: added.files[file.id][2]
        for file in files
        if added.files.get(file.id, ())[:2] == [file.size, file.modified_ns]
    }
    stored = store.digests(tenant, collection, [id for known in listed.values() for id in known])
    unchanged = {id for id, known in listed.items() if known.items() <= stored.items()}
    reading = _Reading(loader, added)
    with closing(reading.parser):
        for one in found:
            if isinstance(one, Skip):
                loader.add(one)
            elif one.id in unchanged:
                reading.pass_by(one)
            else:
                reading.read(one)
    loader.flush()
    there = {one.id if isinstance(one, SourceFile) else one.what for one in found}
    base = (root or Path.cwd()).resolve()
    folders = [document_id(place, base).rstrip("/") for place in places if place.is_dir()]
    below = tuple("" if folder == "." else f"{folder}/" for folder in folders)

    def is_gone(file: str) -> bool:
        return file.startswith(below) and file not in there

    if prune or reading.may_have_lost:
        digests = store.digests(tenant, collection)
        if lost := list(reading.find_lost(digests, prune=prune, is_gone=is_gone)):
            store.remove(tenant, collection, documents=lost)
            loader.progress.removed += len(lost)
    missing = [id for id, (*_, documents, _) in added.files.items() if documents and is_gone(id)]
    for id in missing if prune else ():
        del added.files[id]
    added.save()
    # where the store holds the former text of what was skipped, the reason says so
    asked = [skip.what for skip in loader.skipped if not skip.reason.endswith(LATER_STANDS)]
    kept = store.digests(tenant, collection, asked)
    loader.skipped = [
        replace(skip, reason=f"{skip.reason}; the store keeps its former text")
        if skip.what in kept
        else skip
        for skip in loader.skipped
    ]
    return replace(loader.finish(), missing=0 if prune else len(missing))


class _Reading:
    """Reads files into a loader, and knows which documents they held before and hold no more."""

    def __init__(self, loader: Loader, added: AddedFiles) -> None:
        self._loader = loader
        self._added = added
        self.parser = ParserProcess()
        self.whole: dict[
            str, bool
        ] = {}  # the files read to the end, and whether their rows are packed
        self.may_have_lost = False

    def pass_by(self, file: SourceFile) -> None:
        """Count what an unchanged file became, and tell again what was skipped of it."""
        _, _, documents, skips = self._added.files[file.id]
        self._loader.progress.bytes += file.size
        self._loader.progress.unchanged += len(documents)
        for skip in skips:
            self._loader.note_skip(Skip(*skip))

    def read(self, file: SourceFile) -> None:
        """Add everything that a file holds, and list it as added."""
        loader, documents, skips = self._loader, dict[str, str](), list[Skip]()
        before, origins, is_packed = loader.progress.skips, set[str](), False
        items = read(file, max_bytes=loader.policy.max_bytes, parser=self.parser)
        if loader.kind != CONVERSATION:
            items = pack_rows(items, file.id, loader.policy.chunk)
        for item in items:
            mark = loader.add(item)
            if isinstance(item, Skip):
                skips.append(item)
                continue
            if len(documents) <= MOST_DOCUMENTS:  # of more it is not listed
                documents[item.id] = mark
            origins.add(item.origin)
            is_packed |= item.packed > 0
        self._added.note(file, documents, skips, own_ids=ROW in origins)
        is_empty = not documents and all(skip.is_empty for skip in skips)
        if is_empty or loader.progress.skips == before:
            self.whole[file.id] = is_packed
            # what is one document now was one before; but a file of JSON may have been rows
            self.may_have_lost |= documents.keys() != {file.id} or file.path.suffix == ".json"

    def find_lost(
        self, digests: Mapping[str, str], *, prune: bool, is_gone: Callable[[str], bool]
    ) -> Iterator[str]:
        """The documents that their files no longer hold; with `prune` also those whose file is gone.

        Rows with ids of their own are among them only with `prune`, since the next file may hold other rows, and if
        their file's rows are packed now: they would be there twice.
        """
        for id, digest in digests.items():
            file = file_of(id, digest)
            if file in self.whole and hash((self._loader.collection, id)) not in self._loader.seen:
                if prune or self.whole[file] or not digest.startswith(ROW):
                    yield id
            elif prune and file and is_gone(file):
                yield id
