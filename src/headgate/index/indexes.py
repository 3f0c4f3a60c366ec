"""Indexes: the derived indexes of a store, one per tenant and collection, opened when first asked for."""

from pathlib import Path
from threading import Lock

from headgate.index.collection import Collection
from headgate.index.folder import folder_of
from headgate.index.view import View
from headgate.protocols import Store


class Indexes:
    """The door of the derived index: `view` gives a collection as the store has it now.

    With a folder the indexes are kept there, each in its own; without one they live in memory.
    """

    def __init__(self, store: Store, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder
        self._open: dict[tuple[str, str], Collection] = {}
        self._lock = Lock()

    def view(self, tenant: str, collection: str) -> View:
        """The postings of one collection, caught up with the store."""
        return self._collection(tenant, collection).view()

    def close(self) -> None:
        """Save what is not on disk yet."""
        with self._lock:
            mine = list(self._open.values())
        for collection in mine:
            collection.flush()

    def _collection(self, tenant: str, collection: str) -> Collection:
        key = (tenant, collection)
        with self._lock:
            if key not in self._open:
                folder = folder_of(self._folder, tenant, collection) if self._folder else None
                self._open[key] = Collection(self._store, tenant, collection, folder=folder)
            return self._open[key]
