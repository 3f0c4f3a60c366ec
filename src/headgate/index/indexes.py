"""Indexes: the derived indexes of a store, one per tenant and collection, opened when first asked for."""

import shutil
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from headgate.index.collection import Collection
from headgate.index.folder import folder_of
from headgate.index.snapshot import Snapshot
from headgate.protocols import Embedder, Store


class Indexes:
    """All derived indexes: `snapshot` is a collection as the store has it now.

    With a folder the indexes are kept there, each in its own; without one they live in memory.
    """

    def __init__(
        self, store: Store, folder: Path | None = None, embedder: Embedder | None = None
    ) -> None:
        self._store = store
        self._folder = folder
        self._embedder = embedder
        self._vector = lru_cache(maxsize=1024)(self._embed)
        self._open: dict[tuple[str, str], Collection] = {}
        self._lock = Lock()

    def snapshot(self, tenant: str, collection: str) -> Snapshot:
        """The postings of one collection, caught up with the store."""
        return self._collection(tenant, collection).snapshot()

    def vector(self, query: str) -> "npt.NDArray[np.float32] | None":
        """The embedding of a query, remembered; None without an embedder."""
        return self._vector(query) if self._embedder else None

    def _embed(self, query: str) -> "npt.NDArray[np.float32]":
        assert self._embedder is not None
        vector: npt.NDArray[np.float32] = self._embedder.embed([query])[0]
        return vector

    def rebuild(self, tenant: str, collection: str) -> Snapshot:
        """Delete the index of a collection and build it again from the store."""
        with self._lock:
            self._open.pop((tenant, collection), None)
        if self._folder:
            shutil.rmtree(folder_of(self._folder, tenant, collection), ignore_errors=True)
        opened = self._collection(tenant, collection)
        snapshot = opened.snapshot()
        opened.flush()
        return snapshot

    def close(self) -> None:
        """Save what is not on disk yet."""
        with self._lock:
            opened = list(self._open.values())
        for collection in opened:
            collection.flush()

    def _collection(self, tenant: str, collection: str) -> Collection:
        key = (tenant, collection)
        with self._lock:
            if key not in self._open:
                folder = folder_of(self._folder, tenant, collection) if self._folder else None
                self._open[key] = Collection(
                    self._store, tenant, collection, folder=folder, embedder=self._embedder
                )
            return self._open[key]
