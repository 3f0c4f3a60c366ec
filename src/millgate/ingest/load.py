"""Load: files, streams and rows into a store, batch by batch.

A file whose size and time are as they were is not read again (added_files.py). A document whose digest is equal is left
alone; a changed one replaces the stored one in one transaction.
An item that cannot be read is skipped with its reason, and the others are loaded. Each batch is acknowledged
before the next begins, so that stopping at any moment leaves a consistent store.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, get_args

from millgate.errors import InputError
from millgate.ingest import tables
from millgate.ingest.added_files import AddedFiles
from millgate.ingest.child import ParserProcess
from millgate.ingest.decode import Undecodable, decode
from millgate.ingest.policy import IngestPolicy
from millgate.ingest.readers import SourceFile, read
from millgate.ingest.rows import (
    LINE,
    ROW,
    Skip,
    Text,
    assemble,
    declare,
    digest,
    file_of,
    parse_row,
    refuse_slips,
)
from millgate.ingest.walk import check_paths, document_id, stale_files, stale_parts, walk
from millgate.protocols import DocumentStore
from millgate.text.fingerprint import KIND, pack
from millgate.text.tokens import estimate_all
from millgate.text.turns import CONVERSATION
from millgate.types import Attachment, Document

_MAX_CHUNKS = 20_000  # written at a time, or one document of more
_MAX_LISTED = 1000  # reasons that a summary lists; beyond these it only counts


@dataclass(slots=True)
class Progress:
    """How far an ingest has come; handed to `on_progress` after each batch."""

    bytes: int = 0
    total: int = 0
    documents: int = 0
    chunks: int = 0
    unchanged: int = 0
    removed: int = 0
    skips: int = 0
    touched: set[str] = field(default_factory=set)  # collections written to


@dataclass(frozen=True, slots=True)
class Summary:
    """What an ingest did: documents and chunks written, left alone, removed, and skipped with the reason.

    `missing` counts the files that are gone from a folder, and whose documents stay in the store; `prune` removes them.
    """

    documents: int = 0
    chunks: int = 0
    unchanged: int = 0
    removed: int = 0
    skips: int = 0
    skipped: tuple[Skip, ...] = ()
    missing: int = 0


OnProgress = Callable[[Progress], None]
Kind = Literal["", "conversation", "documents"]
"""What texts are said to be: turns of a conversation, documents whatever they open with, or what they look like."""


def add_rows(
    store: DocumentStore,
    tenant: str,
    rows: Iterable[Mapping[str, Any] | str],
    *,
    collection: str = "main",
    kind: Kind = "",
    policy: IngestPolicy | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Add rows, or texts without an id; a bad one raises an error with its number, and those before it are written."""
    if not isinstance(rows, Iterable):
        raise InputError(
            f"add takes rows, and this is {type(rows).__name__}",
            hint='give {"id": …, "text": …}, a text, a Path, or several of them',
        )
    loader = _Loader(store, tenant, policy or IngestPolicy(), on_progress, kind)
    for number, row in enumerate(rows):
        try:
            refuse_slips(row)
            loader.add(
                parse_row({"text": row} if isinstance(row, str) else row, collection=collection)
            )
        except InputError as error:
            loader.flush()
            raise type(error)(f"row {number}: {error.message}", hint=error.hint) from error
    return loader.finish()


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
    from their file.
    `own_folder` is the folder of the store, which is never read.
    """
    policy = policy or IngestPolicy()
    paths = list(paths)
    check_paths(paths)
    places = [Path(path) for path in paths]
    loader = _Loader(store, tenant, policy, on_progress, kind)
    found = list(walk(places, root=root, exclude=exclude, gitignore=gitignore, store=own_folder))
    loader.progress.total = sum(one.size for one in found)
    added = AddedFiles(own_folder, tenant, collection, kind, policy)
    unchanged = _unchanged_files(found, added, store.digests, tenant, collection)
    whole: set[str] = set()
    with ParserProcess() as parser:
        for one in found:
            if isinstance(one, Skip):
                loader.add(one)
            elif (documents := unchanged.get(one.id)) is not None:
                loader.pass_over(one, documents)
            elif skip := added.skip_of(one):
                loader.add(skip)
            elif loader.read(one, collection, parser, added):
                whole.add(one.id)
    loader.flush()
    base = (root or Path.cwd()).resolve()
    folders = [document_id(place, base) for place in places if place.is_dir()]
    there = {one.id if isinstance(one, SourceFile) else one.what for one in found}
    missing = added.find_missing(folders, there)
    lost: list[str] = []
    if loader.may_have_lost or prune:
        lost += stale_parts(
            store.digests(tenant, collection),
            read=whole,
            is_met=lambda name: hash((collection, name)) in loader.seen,
            prune=prune,
        )
    if prune:
        lost += stale_files(store.digests(tenant, collection), folders=folders, found=there)
        added.drop(missing)
    loader.remove(collection, lost)
    added.save()
    loader.skipped = _tell_what_stays(loader.skipped, partial(store.digests, tenant, collection))
    done = loader.finish()
    return done if prune else replace(done, missing=len(missing))


def _tell_what_stays(
    skipped: Iterable[Skip], digests: Callable[[list[str]], Mapping[str, str]]
) -> list[Skip]:
    """What was skipped; where the store holds a file's former text, the reason says so."""
    skips = list(skipped)
    known = digests([skip.what for skip in skips if not skip.reason.endswith(_LATER_STANDS)])
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


def add_stream(
    store: DocumentStore,
    tenant: str,
    data: bytes,
    *,
    id: str = "stdin",
    collection: str = "main",
    kind: Kind = "",
    policy: IngestPolicy | None = None,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Add what a pipe delivered: JSON lines as rows, anything else as one text."""
    policy = policy or IngestPolicy()
    loader = _Loader(store, tenant, policy, on_progress, kind)
    loader.progress.total = len(data)
    if len(data) > policy.max_bytes:
        loader.add(Skip(id, f"more than {policy.max_bytes / 1e6:.0f} MB", len(data)))
    else:
        for item in _stream_items(data, id, collection, kind):
            loader.add(item if isinstance(item, Skip) else item._replace(origin="", file=""))
    return loader.finish()


def _stream_items(data: bytes, id: str, collection: str, kind: Kind) -> Iterable[Text | Skip]:
    if not data.strip():
        return [Skip(id, "nothing came in")]
    line = BytesIO(data.lstrip().split(b"\n", 1)[0])
    # None if the line is a byte order mark alone
    first = next(tables.json_line_stream(line, id, collection), None)
    if isinstance(first, Text):
        return tables.json_line_stream(BytesIO(data), id, collection)
    try:
        cut = kind if kind == CONVERSATION else "markdown"
        return [Text(id, decode(data), kind=cut, collection=collection, size=len(data))]
    except Undecodable as error:
        return [Skip(id, str(error), len(data))]


# two tables may number their rows alike, and a later export of one table should replace the former
_LATER_STANDS = "the later one stands (tables with ids of their own need a collection each)"


@dataclass
class _Loader:
    """Gathers texts into batches, writes them, and counts."""

    store: DocumentStore
    tenant: str
    policy: IngestPolicy
    on_progress: OnProgress | None
    kind: Kind = ""
    progress: Progress = field(default_factory=Progress)
    skipped: list[Skip] = field(default_factory=list)
    batch: dict[tuple[str, str], tuple[Text, str]] = field(default_factory=dict)
    """Texts with their digests, by collection and id."""
    batch_chars: int = 0
    seen: set[int] = field(default_factory=set)
    """Hashes of the collection and id of each text that came."""
    may_have_lost: bool = False
    """Whether a file was read that can have lost documents: one of several (a .json file may have been), or one that is
    empty now."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(
                f'kind is {self.kind!r}; it must be "conversation" or "documents"',
                hint="leave it out, and each text is what it looks like",
            )

    def add(self, item: Text | Skip) -> str:
        """Add one text to the batch and give its digest; write the batch when it is full."""
        self.progress.bytes += item.size
        if isinstance(item, Skip):
            self.note_skip(item)
            return ""
        if self.kind:
            item = declare(item, self.kind)
        key = (item.collection, item.id)
        mark = hash(key)  # of a million ids the hashes take a tenth of the memory
        if mark in self.seen:
            self.note_skip(Skip(item.id, f"an id that came before: {_LATER_STANDS}"))
        self.seen.add(mark)
        found = digest(item, self.policy.chunk)
        self.batch[key] = item, found
        self.batch_chars += len(item.text)
        full = len(self.batch) >= self.policy.batch_documents
        if full or self.batch_chars >= self.policy.batch_bytes:
            self.flush()
        return found

    def note_skip(self, skip: Skip) -> None:
        """Count a skipped item; list it while the list is not full."""
        if skip.reason:
            self.progress.skips += 1
            if len(self.skipped) < _MAX_LISTED:
                self.skipped.append(skip)

    def flush(self) -> None:
        """Write the batch, and then say so: an index that follows can use the memory that the batch took."""
        batch, self.batch, self.batch_chars = self.batch, {}, 0
        self._write_changed(batch.values())
        del batch
        if self.on_progress:
            self.on_progress(self.progress)

    def _write_changed(self, items: Iterable[tuple[Text, str]]) -> None:
        """Write only what changed, and all of it or, if one is bad, all but that."""
        fresh: list[Document] = []
        count = 0
        for document in self._changed_documents(list(items)):
            fresh.append(document)
            count += len(document.chunks)
            if count >= _MAX_CHUNKS:
                self._write_all(fresh)
                fresh, count = [], 0
        self._write_all(fresh)

    def _write_all(self, documents: list[Document]) -> None:
        try:
            self._write(documents)
        except InputError:
            for document in documents:
                self._write_one(document)

    def read(
        self, file: SourceFile, collection: str, parser: ParserProcess, added: AddedFiles
    ) -> bool:
        """Add everything that a file holds, and list it as added; whether all that it holds is known now."""
        documents, skips, own_ids = dict[str, str](), list[Skip](), False
        before = self.progress.skips
        max_bytes = self.policy.max_bytes
        for item in read(file, collection=collection, max_bytes=max_bytes, parser=parser):
            mark = self.add(item)
            if isinstance(item, Skip):
                skips.append(item)
                continue
            documents[item.id] = mark
            own_ids |= item.origin == ROW
            self.may_have_lost |= item.origin == LINE or file.path.suffix == ".json"
        if own_ids or (documents and skips) or len(skips) > 1:
            added.note(
                file, ""
            )  # other files may hold the same ids; and each skip is to be told again
        else:
            added.note(file, documents or "".join(skip.reason for skip in skips))
        is_empty = not documents and all(skip.is_empty for skip in skips)
        self.may_have_lost |= is_empty
        return is_empty or self.progress.skips == before

    def pass_over(self, file: SourceFile, documents: int) -> None:
        """Count a file that need not be read."""
        self.progress.bytes += file.size
        self.progress.unchanged += documents

    def remove(self, collection: str, ids: list[str]) -> None:
        """Remove documents that lost their file."""
        if ids:
            self.store.remove(self.tenant, collection, documents=ids)
            self.progress.removed += len(ids)

    def finish(self) -> Summary:
        """Write what is left and sum up."""
        self.flush()
        done = self.progress
        counts = done.documents, done.chunks, done.unchanged, done.removed, done.skips
        return Summary(*counts, tuple(self.skipped))

    def _changed_documents(self, marked: list[tuple[Text, str]]) -> Iterator[Document]:
        """The documents of those texts whose digest is not in the store."""
        asked: dict[str, list[str]] = {}
        for item, _ in marked:
            asked.setdefault(item.collection, []).append(item.id)
        known = {
            collection: self.store.digests(self.tenant, collection, ids)
            for collection, ids in asked.items()
        }
        policy = self.policy.chunk
        fresh = [(i, mark) for i, mark in marked if known[i.collection].get(i.id) != mark]
        self.progress.unchanged += len(marked) - len(fresh)
        counts = estimate_all([item.text for item, _ in fresh])
        for (item, mark), tokens in zip(fresh, counts, strict=True):
            former = file_of(item.id, known[item.collection].get(item.id, ""))
            if item.file and former not in ("", item.file):
                self.note_skip(Skip(item.id, f"an id that {former} has too: {_LATER_STANDS}"))
            yield assemble(item, policy, digest=mark, tokens=tokens)

    def _write(self, documents: list[Document]) -> None:
        """Store documents together with the fingerprints of their chunks."""
        chunks = [chunk for document in documents for chunk in document.chunks]
        packed = pack([chunk.text for chunk in chunks])
        beside = (
            Attachment(chunk.collection, chunk.id, KIND, value)
            for chunk, value in zip(chunks, packed, strict=True)
        )
        self.progress.chunks += self.store.put(self.tenant, documents, attachments=beside)
        self.progress.documents += len(documents)
        self.progress.touched.update(document.collection for document in documents)

    def _write_one(self, document: Document) -> None:
        try:
            self._write([document])
        except InputError as error:
            self.note_skip(Skip(document.id, str(error)))
