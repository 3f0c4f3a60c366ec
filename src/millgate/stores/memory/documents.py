"""MemoryDocuments: documents, chunks with what is attached to them, and the change feed of the in-memory store."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from millgate.protocols import Clock
from millgate.stores.memory.collection import Collection, MemoryPart, StoreLock
from millgate.stores.validate import amend_documents, check_attachments, check_documents
from millgate.types import Attachment, Change, Chunk, Document, Size


class MemoryDocuments(MemoryPart):
    """Documents in dictionaries, by tenant and collection."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._collections: dict[tuple[str, str], Collection] = {}
        self._seqs: dict[str, int] = defaultdict(int)
        self._places: dict[str, int] = defaultdict(int)

    def put(
        self, tenant: str, documents: Sequence[Document], *, attachments: Iterable[Attachment] = ()
    ) -> int:
        incoming = check_documents(tenant, documents)
        beside = check_attachments(attachments, incoming)
        with self._lock:
            targets = {name: self._collection(tenant, name) for name in incoming}
            for name, held in targets.items():
                held.refuse_clash(incoming[name])
            changed = sum(
                self._replace(tenant, held, incoming[name]) for name, held in targets.items()
            )
            for name, chunk, kind, value in beside:
                targets[name].attachments.setdefault(chunk, {})[kind] = bytes(value)
            return changed

    def amend_chunks(
        self, tenant: str, collection: str, ids: Sequence[str], change: Callable[[Chunk], Chunk]
    ) -> int:
        with self._lock:
            held = self._collection(tenant, collection)
            known = [held.chunks[id] for id in dict.fromkeys(ids) if id in held.chunks]
            changed = 0
            for id, amended in amend_documents(tenant, collection, known, change).items():
                now = {chunk.id: chunk for chunk in amended.chunks}
                former = held.documents[id]
                chunks = tuple(now.get(chunk.id, chunk) for chunk in former.chunks)
                changed += self._write(tenant, held, replace(former, chunks=chunks))
            return changed

    def remove(
        self,
        tenant: str,
        collection: str,
        *,
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
    ) -> int:
        with self._lock:
            held = self._collection(tenant, collection)
            if documents is None and chunks is None:
                documents = list(held.documents)
            gone = 0
            for id in held.in_reading_order(documents or ()):
                gone += self._remove_document(tenant, held, id)
            for id in dict.fromkeys(chunks or ()):
                gone += self._remove_chunk(tenant, held, id)
            return gone

    def digests(
        self, tenant: str, collection: str, ids: Sequence[str] | None = None
    ) -> Mapping[str, str]:
        with self._lock:
            documents = self._collection(tenant, collection).documents
            names = documents if ids is None else ids
            return {id: documents[id].digest for id in names if id in documents}

    def collections(self, tenant: str) -> Mapping[str, Size]:
        with self._lock:
            return {
                name: held.size()
                for (owner, name), held in sorted(self._collections.items())
                if owner == tenant and held.documents
            }

    def tenants(self) -> list[str]:
        with self._lock:
            return sorted({tenant for tenant, _ in self._collections})

    def size(self, tenant: str, collection: str) -> Size:
        with self._lock:
            return self._collection(tenant, collection).size()

    def chunks(self, tenant: str, collection: str, ids: Sequence[str]) -> list[Chunk]:
        with self._lock:
            known = self._collection(tenant, collection).chunks
            return [known[id] for id in dict.fromkeys(ids) if id in known]

    def scan(self, tenant: str, collection: str, *, document: str | None = None) -> Iterator[Chunk]:
        with self._lock:
            documents = self._collection(tenant, collection).documents
            if document is not None:
                wanted = [documents[document]] if document in documents else []
            else:
                wanted = list(documents.values())
        for one in wanted:
            yield from one.chunks

    def head(self, tenant: str, collection: str) -> int:
        with self._lock:
            feed = self._collection(tenant, collection).feed
            return feed[-1][0] if feed else 0

    def changes(
        self, tenant: str, collection: str, after: int, limit: int = 10_000
    ) -> list[Change]:
        found: list[Change] = []
        with self._lock:
            held = self._collection(tenant, collection)
            for seq, id in held.feed[bisect_right(held.feed, after, key=lambda line: line[0]) :]:
                if len(found) == limit:
                    break
                if held.seqs[id] == seq:
                    chunk = held.chunks.get(id)
                    place = held.places[chunk.document] if chunk else 0
                    found.append(Change(seq, id, chunk, place))
        return found

    def index_marks(self, tenant: str, collection: str) -> tuple[str, ...]:
        with self._lock:
            return self._collection(tenant, collection).marks

    def mark_index(self, tenant: str, collection: str, mark: str, *, former: str) -> None:
        with self._lock:
            self._collection(tenant, collection).marks = tuple(filter(None, (mark, former)))

    def attach(
        self,
        tenant: str,
        collection: str,
        kind: str,
        values: Mapping[str, bytes],
        *,
        seen: int | None = None,
    ) -> int:
        with self._lock:
            held = self._collection(tenant, collection)
            fit = {
                id: bytes(value)
                for id, value in values.items()
                if id in held.chunks and (seen is None or held.seqs[id] <= seen)
            }
            for id, value in fit.items():
                held.attachments.setdefault(id, {})[kind] = value
            return len(fit)

    def attachments(
        self, tenant: str, collection: str, kind: str, ids: Sequence[str]
    ) -> dict[str, bytes]:
        with self._lock:
            known = self._collection(tenant, collection).attachments
            return {id: known[id][kind] for id in dict.fromkeys(ids) if kind in known.get(id, ())}

    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]:
        counts: dict[str, int] = defaultdict(int)
        with self._lock:
            for kinds in self._collection(tenant, collection).attachments.values():
                for kind in kinds:
                    counts[kind] += 1
        return dict(sorted(counts.items()))

    def _collection(self, tenant: str, name: str) -> Collection:
        return self._collections.setdefault((tenant, name), Collection())

    def _next_seq(self, tenant: str) -> int:
        self._seqs[tenant] += 1
        return self._seqs[tenant]

    def _replace(self, tenant: str, held: Collection, incoming: Mapping[str, Document]) -> int:
        """Put each document in the place of its former version; how many chunks changed."""
        kept = {chunk.id for document in incoming.values() for chunk in document.chunks}
        stale = [
            chunk.id
            for id in held.in_reading_order(incoming)
            for chunk in held.documents[id].chunks
            if chunk.id not in kept
        ]
        for id in stale:
            self._erase(tenant, held, id)
        return len(stale) + sum(self._write(tenant, held, one) for one in incoming.values())

    def _write(self, tenant: str, held: Collection, document: Document) -> int:
        if document.id not in held.places:
            self._places[tenant] += 1
            held.places[document.id] = self._places[tenant]
        held.documents[document.id] = document
        changed = 0
        for chunk in document.chunks:
            former = held.chunks.get(chunk.id)
            if former == chunk:
                continue
            if former and (former.title, former.text) != (chunk.title, chunk.text):
                held.attachments.pop(chunk.id, None)
            held.chunks[chunk.id] = chunk
            held.log(self._next_seq(tenant), chunk.id)
            changed += 1
        return changed

    def _remove_document(self, tenant: str, held: Collection, id: str) -> int:
        """Remove a document with all it holds; how many chunks it had."""
        document = held.documents.pop(id, None)
        if document is None:
            return 0
        del held.places[id]
        for chunk in document.chunks:
            self._erase(tenant, held, chunk.id)
        return len(document.chunks)

    def _remove_chunk(self, tenant: str, held: Collection, id: str) -> int:
        """Remove one chunk from its document; the last one takes the document along."""
        chunk = held.chunks.get(id)
        if chunk is None:
            return 0
        document = held.documents[chunk.document]
        rest = tuple(other for other in document.chunks if other.id != id)
        if not rest:
            return self._remove_document(tenant, held, document.id)
        held.documents[document.id] = replace(document, chunks=rest, digest="")
        self._erase(tenant, held, id)
        return 1

    def _erase(self, tenant: str, held: Collection, id: str) -> None:
        del held.chunks[id]
        held.attachments.pop(id, None)
        held.log(self._next_seq(tenant), id)
