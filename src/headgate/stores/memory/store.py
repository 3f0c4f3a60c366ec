"""MemoryStore: the whole store in dictionaries, for tests, demos and short lives.

It keeps the same promises as the others except one: when it is closed, all is gone.
A collection is a Shelf. Its feed is a list of (seq, id) in rising order; a line whose id has moved on to
a later seq is stale and skipped, and the list is swept when more than half of it is stale.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from time import time

from headgate.errors import StoreError
from headgate.protocols import Clock
from headgate.stores import validate
from headgate.stores.keys import MemoryKeys
from headgate.stores.memory.records import MemoryLedger
from headgate.types import Change, Chunk, Document, Size


@dataclass
class _Shelf:
    """One collection. Dictionaries keep insertion order, so `documents` stands in reading order."""

    documents: dict[str, Document] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, Chunk] = field(default_factory=dict)
    seqs: dict[str, int] = field(default_factory=dict)
    feed: list[tuple[int, str]] = field(default_factory=list)
    attachments: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def log(self, seq: int, id: str) -> None:
        self.seqs[id] = seq
        self.feed.append((seq, id))
        if len(self.feed) > 64 + 2 * len(self.seqs):
            self.feed = [line for line in self.feed if self.seqs[line[1]] == line[0]]

    def placed(self, ids: Iterable[str]) -> list[str]:
        """Those of the documents that are here, in reading order."""
        return sorted({id for id in ids if id in self.places}, key=self.places.__getitem__)

    def refuse_clash(self, incoming: Mapping[str, Document]) -> None:
        for document in incoming.values():
            for chunk in document.chunks:
                held = self.chunks.get(chunk.id)
                if held and held.document != document.id and held.document not in incoming:
                    raise validate.clash(document.collection, chunk.id, held.document, document.id)


class MemoryStore(MemoryKeys, MemoryLedger):
    """A store that lives as long as the process."""

    def __init__(self, *, clock: Clock = time) -> None:
        super().__init__(clock)
        self._lock = RLock()
        self._shelves: dict[tuple[str, str], _Shelf] = {}
        self._seqs: dict[str, int] = defaultdict(int)
        self._places: dict[str, int] = defaultdict(int)
        self._held = {}
        self._closed = False

    def put(self, tenant: str, documents: Sequence[Document]) -> int:
        incoming = validate.sort(tenant, documents)
        with self._open():
            shelves = {name: self._shelf(tenant, name) for name in incoming}
            for name, shelf in shelves.items():
                shelf.refuse_clash(incoming[name])
            return sum(
                self._replace(tenant, shelf, incoming[name]) for name, shelf in shelves.items()
            )

    def remove(
        self,
        tenant: str,
        collection: str,
        *,
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
    ) -> int:
        with self._open():
            shelf = self._shelf(tenant, collection)
            if documents is None and chunks is None:
                documents = list(shelf.documents)
            gone = 0
            for id in shelf.placed(documents or ()):
                gone += self._drop(tenant, shelf, id)
            for id in dict.fromkeys(chunks or ()):
                gone += self._tear(tenant, shelf, id)
            return gone

    def digests(
        self, tenant: str, collection: str, ids: Sequence[str] | None = None
    ) -> Mapping[str, str]:
        with self._open():
            documents = self._shelf(tenant, collection).documents
            names = documents if ids is None else ids
            return {id: documents[id].digest for id in names if id in documents}

    def collections(self, tenant: str) -> Mapping[str, Size]:
        with self._open():
            return {
                name: Size(
                    documents=len(shelf.documents),
                    chunks=len(shelf.chunks),
                    chars=sum(len(chunk.text) for chunk in shelf.chunks.values()),
                )
                for (owner, name), shelf in sorted(self._shelves.items())
                if owner == tenant and shelf.documents
            }

    def chunks(self, tenant: str, collection: str, ids: Sequence[str]) -> list[Chunk]:
        with self._open():
            held = self._shelf(tenant, collection).chunks
            return [held[id] for id in dict.fromkeys(ids) if id in held]

    def scan(self, tenant: str, collection: str, *, document: str | None = None) -> Iterator[Chunk]:
        with self._open():
            documents = self._shelf(tenant, collection).documents
            if document is not None:
                wanted = [documents[document]] if document in documents else []
            else:
                wanted = list(documents.values())
        for one in wanted:
            yield from one.chunks

    def head(self, tenant: str, collection: str) -> int:
        with self._open():
            feed = self._shelf(tenant, collection).feed
            return feed[-1][0] if feed else 0

    def changes(
        self, tenant: str, collection: str, after: int, limit: int = 10_000
    ) -> list[Change]:
        found: list[Change] = []
        with self._open():
            shelf = self._shelf(tenant, collection)
            for seq, id in shelf.feed[bisect_right(shelf.feed, after, key=lambda line: line[0]) :]:
                if len(found) == limit:
                    break
                if shelf.seqs[id] == seq:
                    chunk = shelf.chunks.get(id)
                    place = shelf.places[chunk.document] if chunk else 0
                    found.append(Change(seq, id, chunk, place))
        return found

    def attach(
        self,
        tenant: str,
        collection: str,
        kind: str,
        values: Mapping[str, bytes],
        *,
        seen: int | None = None,
    ) -> int:
        with self._open():
            shelf = self._shelf(tenant, collection)
            fit = {
                id: bytes(value)
                for id, value in values.items()
                if id in shelf.chunks and (seen is None or shelf.seqs[id] <= seen)
            }
            for id, value in fit.items():
                shelf.attachments.setdefault(id, {})[kind] = value
            return len(fit)

    def attached(
        self, tenant: str, collection: str, kind: str, ids: Sequence[str]
    ) -> dict[str, bytes]:
        with self._open():
            held = self._shelf(tenant, collection).attachments
            return {id: held[id][kind] for id in dict.fromkeys(ids) if kind in held.get(id, ())}

    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]:
        counts: dict[str, int] = defaultdict(int)
        with self._open():
            for held in self._shelf(tenant, collection).attachments.values():
                for kind in held:
                    counts[kind] += 1
        return dict(sorted(counts.items()))

    def close(self) -> None:
        with self._lock:
            self._closed = True

    def _open(self) -> RLock:
        """The lock, unless the store was closed."""
        if self._closed:
            raise StoreError("the store is closed", hint="open it again")
        return self._lock

    def _shelf(self, tenant: str, collection: str) -> _Shelf:
        return self._shelves.setdefault((tenant, collection), _Shelf())

    def _next(self, tenant: str) -> int:
        self._seqs[tenant] += 1
        return self._seqs[tenant]

    def _replace(self, tenant: str, shelf: _Shelf, incoming: Mapping[str, Document]) -> int:
        """Put each document in the place of its former self; how many chunks changed."""
        kept = {chunk.id for document in incoming.values() for chunk in document.chunks}
        stale = [
            chunk.id
            for id in shelf.placed(incoming)
            for chunk in shelf.documents[id].chunks
            if chunk.id not in kept
        ]
        for id in stale:
            self._erase(tenant, shelf, id)
        return len(stale) + sum(self._write(tenant, shelf, one) for one in incoming.values())

    def _write(self, tenant: str, shelf: _Shelf, document: Document) -> int:
        if document.id not in shelf.places:
            self._places[tenant] += 1
            shelf.places[document.id] = self._places[tenant]
        shelf.documents[document.id] = document
        changed = 0
        for chunk in document.chunks:
            former = shelf.chunks.get(chunk.id)
            if former == chunk:
                continue
            if former and (former.title, former.text) != (chunk.title, chunk.text):
                shelf.attachments.pop(chunk.id, None)
            shelf.chunks[chunk.id] = chunk
            shelf.log(self._next(tenant), chunk.id)
            changed += 1
        return changed

    def _drop(self, tenant: str, shelf: _Shelf, id: str) -> int:
        """Remove a document with all it holds; how many chunks went."""
        document = shelf.documents.pop(id, None)
        if document is None:
            return 0
        del shelf.places[id]
        for chunk in document.chunks:
            self._erase(tenant, shelf, chunk.id)
        return len(document.chunks)

    def _tear(self, tenant: str, shelf: _Shelf, id: str) -> int:
        """Remove one chunk out of its document; the last one takes the document along."""
        chunk = shelf.chunks.get(id)
        if chunk is None:
            return 0
        document = shelf.documents[chunk.document]
        rest = tuple(other for other in document.chunks if other.id != id)
        if not rest:
            return self._drop(tenant, shelf, document.id)
        shelf.documents[document.id] = replace(document, chunks=rest, digest="")
        self._erase(tenant, shelf, id)
        return 1

    def _erase(self, tenant: str, shelf: _Shelf, id: str) -> None:
        del shelf.chunks[id]
        shelf.attachments.pop(id, None)
        shelf.log(self._next(tenant), id)
