"""Load: rows and streams into a store, batch by batch; files.py does so with files.

A document whose digest is equal is left alone; a changed one replaces the stored one in one transaction.
An item that cannot be read is skipped with its reason, and the others are loaded. Each batch is acknowledged
before the next begins, so that stopping at any moment leaves a consistent store.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from typing import Any, Literal, get_args

from millgate.errors import InputError
from millgate.ingest.decode import Undecodable, decode
from millgate.ingest.policy import IngestPolicy
from millgate.ingest.rows import (
    Skip,
    Text,
    assemble,
    declare,
    digest,
    file_of,
    parse_row,
    refuse_slips,
)
from millgate.ingest.tables import json_lines, texts_of
from millgate.protocols import DocumentStore
from millgate.text.tokens import estimate_all
from millgate.text.turns import CONVERSATION
from millgate.types import Document

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
    packed: int = 0
    touched: set[str] = field(default_factory=set)  # collections written to


@dataclass(frozen=True, slots=True)
class Summary:
    """What an ingest did: documents and chunks written, left alone, removed, and skipped with the reason.

    `missing` counts the files that are gone from a folder, and whose documents stay in the store; `prune` removes them.
    `packed` counts the short rows of large tables that share documents.
    """

    documents: int = 0
    chunks: int = 0
    unchanged: int = 0
    removed: int = 0
    skips: int = 0
    skipped: tuple[Skip, ...] = ()
    missing: int = 0
    packed: int = 0


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
    loader = Loader(store, tenant, collection, policy or IngestPolicy(), on_progress, kind)
    for number, row in enumerate(rows):
        try:
            refuse_slips(row)
            loader.add(parse_row({"text": row} if isinstance(row, str) else row))
        except InputError as error:
            loader.flush()
            raise type(error)(f"row {number}: {error.message}", hint=error.hint) from error
    return loader.finish()


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
    loader = Loader(store, tenant, collection, policy, on_progress, kind)
    loader.progress.total = len(data)
    if len(data) > policy.max_bytes:
        loader.add(Skip(id, f"more than {policy.max_bytes / 1e6:.0f} MB", len(data)))
    else:
        for item in _stream_items(data, id, kind):
            loader.add(item if isinstance(item, Skip) else item._replace(origin="", file=""))
    return loader.finish()


def _stream_items(data: bytes, id: str, kind: Kind) -> Iterable[Text | Skip]:
    if not data.strip():
        return [Skip(id, "nothing came in")]

    def rows(data: bytes) -> Iterator[Text | Skip]:
        lines = TextIOWrapper(BytesIO(data), "utf-8", "surrogateescape", newline="")
        return texts_of(json_lines(lines), id)

    # none if the line is a byte order mark alone
    if isinstance(next(rows(data.lstrip().split(b"\n", 1)[0]), None), Text):
        return rows(data)
    try:
        cut = kind if kind == CONVERSATION else "markdown"
        return [Text(id, decode(data), kind=cut, size=len(data))]
    except Undecodable as error:
        return [Skip(id, str(error), len(data))]


# two tables may number their rows alike, and a later export of one table should replace the former
LATER_STANDS = "the later one stands (tables with ids of their own need a collection each)"


@dataclass
class Loader:
    """Gathers texts into batches, writes them, and counts."""

    store: DocumentStore
    tenant: str
    collection: str
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
        self.progress.packed += item.packed
        item = declare(item, self.collection, self.kind)
        key = (item.collection, item.id)
        mark = hash(key)  # of a million ids the hashes take a tenth of the memory
        if mark in self.seen:
            self.note_skip(Skip(item.id, f"an id that came before: {LATER_STANDS}"))
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
        batch, self.batch, self.batch_chars = list(self.batch.values()), {}, 0
        fresh: list[Document] = []
        count = 0
        for document in self._changed_documents(batch):
            fresh.append(document)
            count += len(document.chunks)
            if count >= _MAX_CHUNKS:
                self._write(fresh)
                fresh, count = [], 0
        self._write(fresh)
        del batch, fresh
        if self.on_progress:
            self.on_progress(self.progress)

    def finish(self) -> Summary:
        """Write what is left and sum up."""
        self.flush()
        done = self.progress
        counts = done.documents, done.chunks, done.unchanged, done.removed, done.skips
        return Summary(*counts, tuple(self.skipped), packed=done.packed)

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
                self.note_skip(Skip(item.id, f"an id that {former} has too: {LATER_STANDS}"))
            yield assemble(item, policy, digest=mark, tokens=tokens)

    def _write(self, documents: list[Document]) -> None:
        """Store documents: all of them or, if one is bad, all but that."""
        try:
            self.progress.chunks += self.store.put(self.tenant, documents)
        except InputError as error:
            if len(documents) == 1:
                self.note_skip(Skip(documents[0].id, str(error)))
                return
            for document in documents:
                self._write([document])
            return
        self.progress.documents += len(documents)
        self.progress.touched.update(document.collection for document in documents)
