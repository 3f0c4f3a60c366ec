"""A store of your own: here one that tells what is written. The contract tests say when it is right."""

from millgate import Millgate
from millgate.stores.temporary import TemporaryStore


class AuditedStore:
    """Passes every call on, and says what is written."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put(self, tenant, documents, **beside):
        print(f"{tenant} writes {', '.join(document.id for document in documents)}")
        return self._store.put(tenant, documents, **beside)


# test it like ours: subclass millgate.testing.StoreContract and give it this store
with Millgate.open(store=AuditedStore(TemporaryStore())) as gate:
    gate.add([{"id": "tide", "text": "The tide turns at six."}])
    print(gate.context("when does the tide turn?", budget=100).chunks[0].id)
