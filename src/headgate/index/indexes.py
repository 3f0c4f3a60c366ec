"""Indexes: the derived indexes of a store, one per tenant and collection, opened when first asked for.

One thread follows the change feeds of all collections in the background, batch by batch and in turn, so that a busy one
delays no other. The collections used last stay open; the others are saved and closed.
"""

import time
from collections import OrderedDict
from pathlib import Path
from sys import getsizeof
from threading import Condition, Thread

import numpy as np
import numpy.typing as npt

from headgate.bugs import EXPECTED, LOGGER, describe, report
from headgate.errors import NotReady
from headgate.index.candidates import RecentReads
from headgate.index.collection import Collection
from headgate.index.folder import delete_index, folder_of
from headgate.index.narrowed import NarrowedCollection
from headgate.index.snapshot import Snapshot
from headgate.index.storage import SharedStorage
from headgate.policy import IndexPolicy
from headgate.protocols import Embedder, PostingStore, Store
from headgate.text.cache import Cache

OPEN = 128  # collections that stay open; each may hold a few mapped files
_VECTOR_BYTES = 8_000_000  # of queries and their embeddings, some thousand
_SIZED_S = 10.0  # for which the size of a collection is believed

Key = tuple[str, str]


class Indexes:
    """All derived indexes. `snapshot` waits until a collection has caught up with the store, `latest` never waits.

    With a folder the indexes are kept there, each in its own; without one they live in memory.
    `segments` is storage that gateways share: ready indexes are copied from there and published to it.
    """

    def __init__(
        self,
        store: Store,
        folder: Path | None = None,
        embedder: Embedder | None = None,
        policy: IndexPolicy = IndexPolicy.default(),  # noqa: B008  (frozen)
        *,
        segments: SharedStorage | None = None,
    ) -> None:
        self._store = store
        self._posting_store = store if isinstance(store, PostingStore) else None
        self._policy = policy
        self._sizes: dict[Key, tuple[float, int]] = {}
        self._narrow: dict[Key, NarrowedCollection] = {}
        self._recent = RecentReads()
        self._folder = folder
        self._segments = segments
        self._embedder = embedder
        self._vectors: Cache[str, npt.NDArray[np.float32]] = Cache(
            _VECTOR_BYTES, lambda query, vector: getsizeof(query) + vector.nbytes
        )
        self._open: OrderedDict[Key, Collection] = OrderedDict()
        self._changed = Condition()
        self._due: OrderedDict[Key, None] = OrderedDict()
        self._thread: Thread | None = None
        self._closing = False

    def snapshot(self, tenant: str, collection: str, query: str = "") -> Snapshot:
        """The postings of one collection, caught up with the store; of a large one those that matter to the query."""
        if narrowed := self._open_narrowed(tenant, collection):
            return narrowed.snapshot(query, wait=True)
        opened = self._collection(tenant, collection)
        snapshot = opened.snapshot()
        if opened.unchecked:
            self._follow_later((tenant, collection))
        return snapshot

    def latest(self, tenant: str, collection: str, query: str = "") -> Snapshot:
        """The last complete postings of one collection, which say so when the store has gone on since.

        NotReady where there are none yet. What is missing is followed in the background.
        """
        if narrowed := self._open_narrowed(tenant, collection):
            self._follow_later((tenant, collection))
            return narrowed.snapshot(query, wait=False)
        opened = self._collection(tenant, collection)
        try:
            snapshot, behind = opened.latest()
        except NotReady:
            self._follow_later((tenant, collection))
            raise
        if behind or opened.unchecked:
            self._follow_later((tenant, collection))
        return snapshot

    def follow(self, tenant: str, collection: str) -> None:
        """Take in what was just written, a batch of it; the rest is followed in the background."""
        if not self._follower(tenant, collection).follow_batch():
            self._follow_later((tenant, collection))

    def vector(self, query: str) -> "npt.NDArray[np.float32] | None":
        """The embedding of a query, remembered; None without an embedder, or where it cannot read the query."""
        if not self._embedder:
            return None
        vector = self._vectors.get(query)
        if vector is None:
            made: npt.NDArray[np.float32] = self._embedder.embed([query])[0]
            vector = made
            self._vectors.put(query, vector)
        return vector if vector.any() else None

    def _known_vector(self, query: str) -> "npt.NDArray[np.float32] | None":
        """The same where narrowing asks for it: an embedder that fails is reported by who ranks."""
        try:
            return self.vector(query)
        except EXPECTED:
            return None

    def rebuild(self, tenant: str, collection: str) -> Snapshot:
        """Delete the index of a collection and build it again from the store."""
        if narrowed := self._open_narrowed(tenant, collection):
            narrowed.clear()
            return narrowed.snapshot("", wait=True)
        with self._changed:
            self._open.pop((tenant, collection), None)
        if self._folder:
            delete_index(folder_of(self._folder, tenant, collection))
        opened = self._collection(tenant, collection)
        opened.clear_published()
        snapshot = opened.snapshot()
        opened.flush()
        return snapshot

    def close(self) -> None:
        """Stop following, and save what is not on disk yet."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread, opened = self._thread, list(self._open.values())
        if thread is not None:
            thread.join()
        for collection in opened:
            collection.flush()

    def _follower(self, tenant: str, collection: str) -> Collection | NarrowedCollection:
        return self._open_narrowed(tenant, collection) or self._collection(tenant, collection)

    def _open_narrowed(self, tenant: str, collection: str) -> NarrowedCollection | None:
        """The collection as the store narrows it, where it is too large to be held here and the store can."""
        if self._posting_store is None:
            return None
        key, now = (tenant, collection), time.monotonic()
        looked, chunks = self._sizes.get(key, (-_SIZED_S, 0))
        if now - looked >= _SIZED_S:
            chunks = self._store.size(tenant, collection).chunks
            if len(self._sizes) > 10 * OPEN:
                self._sizes = {}
            self._sizes[key] = (now, chunks)
        if chunks <= self._policy.max_chunks:
            return None
        narrowed = self._narrow.get(key)
        if narrowed is None:
            if len(self._narrow) >= OPEN:
                self._narrow = {}
            narrowed = self._narrow[key] = NarrowedCollection(
                self._posting_store,
                tenant,
                collection,
                embedder=self._embedder,
                vector=self._known_vector,
                recent=self._recent,
            )
        return narrowed

    def _collection(self, tenant: str, collection: str) -> Collection:
        key, surplus = (tenant, collection), []
        with self._changed:
            held = self._open.pop(key, None)
            if held is None:
                folder = folder_of(self._folder, tenant, collection) if self._folder else None
                held = Collection(
                    self._store,
                    tenant,
                    collection,
                    folder=folder,
                    embedder=self._embedder,
                    segments=self._segments,
                )
            self._open[key] = held
            # in memory only, closing one would mean to build it again
            while self._folder and len(self._open) > OPEN:
                surplus.append(self._open.popitem(last=False)[1])
        for closed in surplus:
            closed.flush()
        return held

    def _follow_later(self, key: Key) -> None:
        with self._changed:
            if self._closing:
                return
            self._due[key] = None
            if self._thread is None:
                self._thread = Thread(target=self._run, name="headgate-indexes", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._closing)
                if self._closing:
                    return
                key, _ = self._due.popitem(last=False)
            if not self._follow(key):
                with self._changed:
                    self._due.setdefault(key, None)

    def _follow(self, key: Key) -> bool:
        """Take in one batch of changes; True if nothing is left to do."""
        try:
            return self._follower(*key).follow_batch()
        except EXPECTED as error:
            # the next request finds the same and says so
            LOGGER.warning("the index of %r cannot follow: %s", key[1], describe(error))
        except Exception as error:  # noqa: BLE001  a bug: logged, and the other collections go on
            report(error, "index")
        return True
