"""Indexes: the derived indexes of a store, one per tenant and collection, opened when first asked for."""

from threading import Lock

from headgate.index.collection import Collection
from headgate.index.view import View
from headgate.protocols import Store


class Indexes:
    """The door of the derived index: `view` gives a collection as the store has it now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[tuple[str, str], Collection] = {}
        self._lock = Lock()

    def view(self, tenant: str, collection: str) -> View:
        """The postings of one collection, caught up with the store."""
        key = (tenant, collection)
        with self._lock:
            if key not in self._open:
                self._open[key] = Collection(self._store, tenant, collection)
            mine = self._open[key]
        return mine.view()
