"""Collection: one collection of a MemoryStore, with its change feed; and the lock that all parts of the store share.

The feed is a list of (seq, id) in rising order. A line whose id has a later seq is stale and skipped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import RLock

from millgate.errors import StoreError
from millgate.forks import prepare_for_forks
from millgate.protocols import Clock
from millgate.stores.validate import chunk_clash
from millgate.types import Chunk, Document, Size


class StoreLock:
    """A reentrant lock; `with lock:` raises StoreError after `close`. No fork happens while a thread holds it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._closed = False
        prepare_for_forks(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise StoreError("the store is closed", hint="open it again")

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self) -> None:
        self._lock.release()

    def begin_in_child(self) -> None:
        self._lock = RLock()

    def close(self) -> None:
        """Refuse the lock from now on."""
        with self._lock:
            self._closed = True


class MemoryPart:
    """One part of a MemoryStore: all parts share the store's lock and clock."""

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
    counted: tuple[int, int] = (0, 0)  # the last change that was counted, and the characters then

    def size(self) -> Size:
        last = self.feed[-1][0] if self.feed else 0
        if self.counted[0] != last:
            self.counted = last, sum(len(chunk.text) for chunk in self.chunks.values())
        return Size(len(self.documents), len(self.chunks), self.counted[1])

    def log(self, seq: int, id: str) -> None:
        """Add a chunk's change to the feed; sweep the feed when more than half of it is stale."""
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
