"""LargeCollections: the collections of a store that are too large for an index in this process."""

from millgate.index.large.candidates import RecentReads
from millgate.index.large.narrowed import NarrowedCollection, Vector
from millgate.protocols import Embedder, PostingStore
from millgate.text.cache import Cache

_OPEN = 128  # collections that stay open, as many as ordinary ones do ...
_OPEN_BYTES = 1 << 20  # ... at a few numbers each, beside RecentReads


class LargeCollections:
    """Opens large collections of one store. `vector` gives the embedding of a query, or None."""

    def __init__(
        self, store: PostingStore, *, embedder: Embedder | None = None, vector: Vector
    ) -> None:
        self._store, self._embedder, self._vector = store, embedder, vector
        self._recent = RecentReads()
        self._open: Cache[tuple[str, str], NarrowedCollection] = Cache(
            _OPEN_BYTES, max_entries=_OPEN
        )

    def open(self, tenant: str, collection: str) -> NarrowedCollection:
        """One collection as the database narrows it."""
        key = (tenant, collection)
        found = self._open.get(key)
        if found is None:
            found = NarrowedCollection(
                self._store,
                tenant,
                collection,
                embedder=self._embedder,
                vector=self._vector,
                recent=self._recent,
            )
            self._open.put(key, found)
        return found
