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

from millgate.calls.bugs import EXPECTED, LOGGER, describe, report
from millgate.errors import NotReady
from millgate.index.candidates import CandidateIndex
from millgate.index.collection import Collection
from millgate.index.folder import folder_of
from millgate.index.vectors import EmbedderFailed, embed
from millgate.protocols import Embedder, Snapshot, Store
from millgate.text.cache import Cache
from millgate.types.policy import IndexPolicy

# Seconds that closing waits for a batch under way. Chosen: several times what 5 000 chunks take without an embedder.
CLOSE_S = 30.0
_VECTOR_BYTES = 8_000_000  # of queries and their embeddings, some thousand

Key = tuple[str, str]


class Indexes:
    """All derived indexes. `snapshot` waits until a collection has caught up with the store, `latest` never waits.

    With a folder the indexes are kept there, each in its own; without one they live in memory. With `candidates` an
    engine of the user's own answers each query, and what is added is not indexed.
    """

    def __init__(
        self,
        store: Store,
        folder: Path | None = None,
        embedder: Embedder | None = None,
        policy: IndexPolicy = IndexPolicy.default(),  # noqa: B008  (frozen)
        *,
        candidates: CandidateIndex | None = None,
    ) -> None:
        self._candidates = candidates
        self._store = store
        self._policy = policy
        self._folder = folder
        self._embedder = embedder
        self._vectors: Cache[str, npt.NDArray[np.float32]] = Cache(
            _VECTOR_BYTES, lambda query, vector: getsizeof(query) + vector.nbytes
        )
        # not a Cache: a collection that is closed must be saved first, and one without a folder is never closed
        self._open: OrderedDict[Key, Collection] = OrderedDict()
        self._changed = Condition()
        self._due: OrderedDict[Key, None] = OrderedDict()
        self._thread: Thread | None = None
        self._closing = False

    def snapshot(self, tenant: str, collection: str, query: str = "") -> Snapshot:
        """The postings of one collection, caught up with the store."""
        if self._candidates and query:
            return self._candidates.snapshot(tenant, collection, query)
        opened = self._collection(tenant, collection)
        snapshot = opened.snapshot()
        if opened.unchecked:
            self._follow_later((tenant, collection))
        return snapshot

    def latest(self, tenant: str, collection: str, query: str = "") -> Snapshot:
        """The last complete postings of one collection, which say so when the store has gone on since.

        NotReady if there are none yet. What is missing is followed in the background.
        """
        if self._candidates and query:
            return self._candidates.snapshot(tenant, collection, query)
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
        if not self._candidates and not self._collection(tenant, collection).follow_batch():
            self._follow_later((tenant, collection))

    def vector(self, query: str) -> "npt.NDArray[np.float32] | None":
        """The embedding of a query, remembered; None without an embedder, or if it cannot read the query.

        EmbedderFailed if it gives no numbers.
        """
        if not self._embedder:
            return None
        vector = self._vectors.get(query)
        if vector is None:
            vector = embed(self._embedder, [query])[0]
            if not np.isfinite(vector).all():
                raise EmbedderFailed(
                    f"the embedder {self._embedder.name} gave no numbers for the query"
                )
            self._vectors.put(query, vector)
        return vector if vector.any() else None

    def rebuild(self, tenant: str, collection: str) -> Snapshot:
        """Delete the index of a collection and build it again from the store."""
        with self._changed:
            self._open.pop((tenant, collection), None)
        opened = self._collection(tenant, collection)
        opened.delete()
        snapshot = opened.snapshot()
        opened.flush()
        return snapshot

    def close(self) -> None:
        """Stop following, and save what is not on disk yet; what a part of the user's own holds is left."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread, opened = self._thread, list(self._open.values())
        if self._candidates:
            self._candidates.close()
        until = time.monotonic() + CLOSE_S
        if thread is not None:
            thread.join(CLOSE_S)
        for collection in opened:
            collection.flush(max(0.0, until - time.monotonic()))

    def _collection(self, tenant: str, collection: str) -> Collection:
        key, surplus = (tenant, collection), []
        with self._changed:
            held = self._open.pop(key, None)
            if held is None:
                own = folder_of(self._folder, tenant, collection) if self._folder else None
                held = Collection(
                    self._store, tenant, collection, folder=own, embedder=self._embedder
                )
            self._open[key] = held
            # in memory only, closing one would mean to build it again
            while self._folder and len(self._open) > self._policy.max_open:
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
                self._thread = Thread(target=self._run, name="millgate-indexes", daemon=True)
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
            return self._collection(*key).follow_batch()
        except EXPECTED as error:
            # the next request finds the same and says so
            LOGGER.warning("the index of %r cannot follow: %s", key[1], describe(error))
        except Exception as error:  # noqa: BLE001  a bug: logged, and the other collections go on
            report(error, "index")
        except BaseException as error:  # noqa: BLE001  a part of the user's own exits, which may not end this thread
            LOGGER.warning("the index of %r cannot follow: %s", key[1], describe(error))
        return True
