"""A store in plain dictionaries: the model that SQLite and PostgreSQL must agree with, call by call."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from operator import itemgetter
from secrets import token_bytes
from threading import RLock
from time import time
from typing import NamedTuple

from millgate.errors import StoreError
from millgate.protocols import Clock
from millgate.stores.codec import encode
from millgate.stores.stored_trace import trim
from millgate.stores.validate import (
    already_decided,
    amend_documents,
    check_amended,
    check_attachments,
    check_direction,
    check_documents,
    check_edges,
    check_fact,
    check_key,
    check_name,
    check_review,
    check_spends,
    chunk_clash,
    key_exists,
)
from millgate.types import (
    Attachment,
    Change,
    Chunk,
    Document,
    Edge,
    Fact,
    FactChange,
    Key,
    Review,
    Secret,
    Size,
    Spend,
    SpendScope,
    Trace,
    TraceSummary,
    node_key,
)


class StoreLock:
    """A reentrant lock; `with lock:` raises StoreError after `close`."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._closed = False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise StoreError("the store is closed", hint="open it again")

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Refuse the lock from now on."""
        with self._lock:
            self._closed = True


class MemoryPart:
    """One part of a DictionaryStore: all parts share the store's lock and clock."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock


@dataclass
class Collection:
    """One collection. Dictionaries keep insertion order, so `documents` is in reading order."""

    documents: dict[str, Document] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, Chunk] = field(default_factory=dict)
    seqs: dict[str, int] = field(default_factory=dict)
    feed: list[tuple[int, str]] = field(default_factory=list)
    attachments: dict[str, dict[str, bytes]] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    place: int = 0  # of the last document that came
    counted: tuple[int, int] = (0, 0)  # the last change that was counted, and the characters then

    def size(self) -> Size:
        last = self.feed[-1][0] if self.feed else 0
        if self.counted[0] != last:
            self.counted = last, sum(len(chunk.text) for chunk in self.chunks.values())
        return Size(len(self.documents), len(self.chunks), self.counted[1])

    def log(self, id: str) -> None:
        """Add a chunk's change to the feed; sweep the feed when more than half of it is stale."""
        seq = 1 + (self.feed[-1][0] if self.feed else 0)
        self.seqs[id] = seq
        self.feed.append((seq, id))
        if len(self.feed) > 64 + 2 * len(self.seqs):
            self.feed = [line for line in self.feed if self.seqs[line[1]] == line[0]]

    def in_reading_order(self, ids: Iterable[str]) -> list[str]:
        """Those of the documents that are in this collection, in reading order."""
        return sorted({id for id in ids if id in self.places}, key=self.places.__getitem__)

    def refuse_clash(self, incoming: Mapping[str, Document]) -> None:
        """Raise if an incoming document claims a chunk id of a document that stays."""
        for document in incoming.values():
            for chunk in document.chunks:
                held = self.chunks.get(chunk.id)
                if held and held.document != document.id and held.document not in incoming:
                    raise chunk_clash(document.collection, chunk.id, held.document, document.id)


class MemoryDocuments(MemoryPart):
    """Documents in dictionaries, by tenant and collection."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._collections: dict[tuple[str, str], Collection] = {}

    def put(
        self, tenant: str, documents: Sequence[Document], *, attachments: Iterable[Attachment] = ()
    ) -> int:
        incoming = check_documents(tenant, documents)
        beside = check_attachments(attachments, incoming)
        with self._lock:
            targets = {name: self._collection(tenant, name) for name in sorted(incoming)}
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
            held.place += 1
            held.places[document.id] = held.place
        held.documents[document.id] = document
        changed = 0
        for chunk in document.chunks:
            former = held.chunks.get(chunk.id)
            if former == chunk:
                continue
            if former and (former.title, former.text) != (chunk.title, chunk.text):
                held.attachments.pop(chunk.id, None)
            held.chunks[chunk.id] = chunk
            held.log(chunk.id)
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
        held.log(id)


EdgeName = tuple[str, str, str]
EdgeRank = tuple[float, str, str, str]
RankedEdge = tuple[EdgeRank, Edge]


class MemoryRecords(MemoryPart):
    """Everything a store keeps besides documents, traces and API keys."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._out: dict[tuple[str, str], dict[EdgeName, Edge]] = {}
        self._in: dict[tuple[str, str], dict[EdgeName, Edge]] = {}
        self._edge_counts: dict[str, int] = defaultdict(int)
        # the edges of a node in order, sorted on first use: a hub is sorted once, not at every read
        self._sorted: dict[tuple[str, str, str], list[RankedEdge]] = {}
        self._facts: dict[str, dict[str, Fact]] = defaultdict(dict)
        self._fact_keys: dict[tuple[str, str], str] = {}
        self._fact_feed: dict[str, dict[str, int]] = defaultdict(dict)
        self._fact_seqs: dict[str, int] = defaultdict(int)
        self._secrets: dict[str, list[Secret]] = {}
        self._reviews: dict[str, dict[str, Review]] = defaultdict(dict)

    def link(self, tenant: str, edges: Sequence[Edge]) -> int:
        check_edges(tenant, edges)
        changed = 0
        with self._lock:
            for name, edge in {_edge_name(edge): edge for edge in edges}.items():
                leaving = self._out.setdefault((tenant, node_key(edge.source)), {})
                changed += leaving.get(name) != edge
                self._edge_counts[tenant] += name not in leaving
                leaving[name] = edge
                self._in.setdefault((tenant, node_key(edge.target)), {})[name] = edge
                self._forget_order(tenant, edge)
        return changed

    def unlink(self, tenant: str, edges: Sequence[Edge]) -> int:
        gone = 0
        with self._lock:
            for edge in edges:
                leaving = self._out.get((tenant, node_key(edge.source)), {})
                entering = self._in.get((tenant, node_key(edge.target)), {})
                same = [name for name in leaving if _edge_key(name) == _edge_key(_edge_name(edge))]
                for name in same:
                    del leaving[name], entering[name]
                self._forget_order(tenant, edge)
                gone += len(same)
            self._edge_counts[tenant] -= gone
        return gone

    def has_edges(self, tenant: str) -> bool:
        with self._lock:
            return self._edge_counts[tenant] > 0

    def edges_touching(
        self, tenant: str, nodes: Sequence[str], *, direction: str = "both", limit: int = 1000
    ) -> list[Edge]:
        check_direction(direction)
        sides = ("out", "in") if direction == "both" else (direction,)
        found: dict[EdgeRank, Edge] = {}
        with self._lock:
            for side in sides:
                for node in dict.fromkeys(map(node_key, nodes)):
                    found.update(self._sorted_edges(side, tenant, node)[: max(limit, 0)])
        return [found[rank] for rank in sorted(found)]

    def save_fact(self, tenant: str, fact: Fact) -> Fact:
        check_fact(tenant, fact)
        with self._lock:
            owner = self._fact_keys.get((tenant, fact.key), fact.id)
            if owner != fact.id:
                return self._facts[tenant][owner]
            former = self._facts[tenant].get(fact.id)
            if former:
                del self._fact_keys[tenant, former.key]
            self._fact_keys[tenant, fact.key] = fact.id
            if former != fact:
                self._log_fact(tenant, fact.id)
            self._facts[tenant][fact.id] = fact
            return fact

    def amend_fact(self, tenant: str, id: str, change: Callable[[Fact], Fact]) -> Fact | None:
        with self._lock:
            held = self._facts[tenant].get(id)
            if held is None:
                return None
            now = check_amended(held, change(held))
            if now != held:
                self._log_fact(tenant, id)
            self._facts[tenant][id] = now
            return now

    def fact(self, tenant: str, id: str) -> Fact | None:
        with self._lock:
            return self._facts[tenant].get(id)

    def facts(self, tenant: str) -> list[Fact]:
        with self._lock:
            return sorted(self._facts[tenant].values(), key=lambda fact: fact.id)

    def forget(self, tenant: str, id: str) -> bool:
        with self._lock:
            fact = self._facts[tenant].pop(id, None)
            if fact is None:
                return False
            del self._fact_keys[tenant, fact.key]
            self._log_fact(tenant, id)
            return True

    def fact_changes(self, tenant: str, after: int) -> list[FactChange]:
        with self._lock:
            held, feed = self._facts[tenant], self._fact_feed[tenant]
            newer = list(takewhile(lambda name: feed[name] > after, reversed(feed)))
            return [FactChange(feed[id], id, held.get(id)) for id in reversed(newer)]

    def secret(self, tenant: str) -> bytes:
        return self.secrets(tenant)[0].key

    def secrets(self, tenant: str) -> list[Secret]:
        check_name("tenant", tenant)
        with self._lock:
            if tenant not in self._secrets:
                self._secrets[tenant] = [Secret(token_bytes(32), self._clock())]
            return list(self._secrets[tenant])

    def rotate(self, tenant: str, *, expires: float) -> Secret:
        with self._lock:
            former, *older = self.secrets(tenant)
            fresh = Secret(token_bytes(32), self._clock())
            self._secrets[tenant] = [fresh, replace(former, expires=expires), *older]
            return fresh

    def save_review(
        self,
        tenant: str,
        review: Review,
        *,
        most: int | None = None,
        patience_s: float | None = None,
    ) -> bool:
        check_review(tenant, review)
        with self._lock:
            reviews = self._reviews[tenant]
            held = reviews.get(review.id)
            if held and held.status != "pending":
                raise already_decided(review.id, held.status)
            others = (r for r in reviews.values() if r.status == "pending" and r.id != review.id)
            if most is not None and sum(1 for _ in others) >= most:
                return False
            reviews[review.id] = review
            return True

    def review(self, tenant: str, id: str) -> Review | None:
        with self._lock:
            return self._reviews[tenant].get(id)

    def reviews(self, tenant: str, *, status: str | None = None) -> list[Review]:
        with self._lock:
            found = [r for r in self._reviews[tenant].values() if status in (None, r.status)]
        return sorted(found, key=lambda review: (review.created, review.id))

    def decide(
        self,
        tenant: str,
        review: Review,
        *,
        fact: Fact | None = None,
        ids: Sequence[str] = (),
        amend: Callable[[Fact], Fact] = lambda fact: fact,
    ) -> bool:
        with self._lock:
            held = self._reviews[tenant].get(review.id)
            if held is None or held.status != "pending":
                return False
            facts = self._facts[tenant]
            owner = self._fact_keys.get((tenant, fact.key)) if fact else None
            known = [id for id in (owner, *ids) if id in facts]
            # all changes are made before the first is kept, so that one that fails leaves nothing
            changed = [check_amended(facts[id], amend(facts[id])) for id in known]
            for new in changed if owner or fact is None else [fact, *changed]:
                self.save_fact(tenant, new)
            self._reviews[tenant][review.id] = review
            return True

    def _sorted_edges(self, side: str, tenant: str, node: str) -> list[RankedEdge]:
        """The edges of a node on one side, the strongest first, sorted once until they change."""
        held = (self._out if side == "out" else self._in).get((tenant, node))
        if not held:
            return []
        ranked = self._sorted.get((side, tenant, node))
        if ranked is None:
            # strongest first, ties by name
            ranks = (((-edge.weight, *_edge_name(edge)), edge) for edge in held.values())
            ranked = sorted(ranks, key=itemgetter(0))
            self._sorted[side, tenant, node] = ranked
        return ranked

    def _forget_order(self, tenant: str, edge: Edge) -> None:
        self._sorted.pop(("out", tenant, node_key(edge.source)), None)
        self._sorted.pop(("in", tenant, node_key(edge.target)), None)

    def _log_fact(self, tenant: str, id: str) -> None:
        self._fact_seqs[tenant] += 1
        self._fact_feed[tenant].pop(id, None)  # each fact once, at its last change
        self._fact_feed[tenant][id] = self._fact_seqs[tenant]


def _edge_name(edge: Edge) -> EdgeName:
    """What tells an edge from every other."""
    return edge.source, edge.predicate, edge.target


def _edge_key(name: EdgeName) -> EdgeName:
    """What two spellings of an edge have in common."""
    source, predicate, target = name
    return node_key(source), predicate, node_key(target)


class _Held(NamedTuple):
    trace: Trace
    size: int


class MemoryTraces(MemoryPart):
    """Traces of all tenants, oldest first."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._traces: dict[str, dict[str, _Held]] = defaultdict(dict)

    def save_trace(self, trace: Trace, *, keep: int = 10_000, text: bool = True) -> None:
        kept = trim(trace, text=text)
        new = _Held(kept, len(encode(kept)))
        with self._lock:
            held = self._traces[trace.request.tenant]
            held.pop(trace.id, None)
            held[trace.id] = new
            _delete_oldest(held, len(held) - keep)

    def trace(self, tenant: str, id: str) -> Trace | None:
        with self._lock:
            found = self._traces[tenant].get(id)
        return found.trace if found else None

    def traces(self, tenant: str, *, limit: int = 100) -> list[TraceSummary]:
        with self._lock:
            newest = list(islice(reversed(self._traces[tenant].values()), max(limit, 0)))
        return [TraceSummary.of(held.trace) for held in newest]

    def prune_traces(
        self, *, keep: int, age_s: float | None = None, max_bytes: int | None = None
    ) -> int:
        oldest = float("-inf") if age_s is None else self._clock() - age_s
        before = after = 0
        with self._lock:
            for held in self._traces.values():
                before += len(held)
                for id in [id for id, one in held.items() if one.trace.created < oldest]:
                    del held[id]
                _delete_oldest(held, len(held) - keep)
                if max_bytes is not None:
                    _delete_oldest(held, _count_beyond(held, max_bytes))
                after += len(held)
        return before - after


def _count_beyond(held: dict[str, _Held], max_bytes: int) -> int:
    """How many of the oldest must go, so that the others have at most `max_bytes`."""
    total = sum(one.size for one in held.values())
    count = 0
    for one in held.values():
        if total <= max_bytes:
            break
        total -= one.size
        count += 1
    return count


def _delete_oldest(held: dict[str, _Held], count: int) -> None:
    for id in list(islice(held, max(count, 0))):
        del held[id]


class MemoryAccounts(MemoryPart):
    """Keys, by the hash of their secret, and spends of all tenants."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._keys: dict[str, Key] = {}
        self._spends: dict[tuple[str, SpendScope, str], Spend] = {}

    def save_key(self, key: Key) -> None:
        check_key(key)
        with self._lock:
            names = {(held.tenant, held.id) for held in self._keys.values()}
            if key.digest in self._keys or (key.tenant, key.id) in names:
                raise key_exists(key)
            self._keys[key.digest] = key

    def key(self, digest: str) -> Key | None:
        with self._lock:
            return self._keys.get(digest)

    def keys(self, tenant: str | None = None) -> list[Key]:
        with self._lock:
            mine = [key for key in self._keys.values() if tenant in (None, key.tenant)]
        return sorted(mine, key=lambda key: (key.created, key.tenant, key.id))

    def revoke(self, tenant: str, id: str) -> bool:
        with self._lock:
            for digest, key in self._keys.items():
                if (key.tenant, key.id, key.revoked) == (tenant, id, None):
                    self._keys[digest] = replace(key, revoked=self._clock())
                    return True
        return False

    def amend_spends(
        self,
        tenant: str,
        names: Sequence[tuple[SpendScope, str]],
        change: Callable[[list[Spend]], list[Spend]],
    ) -> list[Spend]:
        with self._lock:
            held = [self._spends.get((tenant, *name), Spend(*name)) for name in names]
            now = check_spends(tenant, names, change(held))
            self._spends.update(
                {(tenant, *name): row for name, row in zip(names, now, strict=True)}
            )
            return now

    def spends(
        self, tenant: str, *, scope: SpendScope | None = None, limit: int = 100
    ) -> list[Spend]:
        with self._lock:
            mine = [
                row
                for (owner, kind, _), row in self._spends.items()
                if owner == tenant and scope in (None, kind)
            ]
        return sorted(mine, key=lambda row: (-row.last, row.scope, row.name))[: max(limit, 0)]

    def forget_spends(self, tenant: str, *, idle_since: float) -> int:
        with self._lock:
            idle = [
                name
                for name, row in self._spends.items()
                if name[:2] == (tenant, "session") and row.last < idle_since
            ]
            for name in idle:
                del self._spends[name]
            return len(idle)


class DictionaryStore(MemoryDocuments, MemoryRecords, MemoryTraces, MemoryAccounts):
    """A store that lives as long as the process."""

    def __init__(self, *, clock: Clock = time) -> None:
        super().__init__(StoreLock(), clock)

    def close(self) -> None:
        self._lock.close()
