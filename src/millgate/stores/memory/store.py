"""MemoryStore: the whole store in dictionaries, for tests, demos and short lives.

It keeps the same promises as the other stores except one: when it is closed, its content is gone.
"""

from time import time

from millgate.protocols import Clock
from millgate.stores.memory.accounts import MemoryAccounts
from millgate.stores.memory.collection import StoreLock
from millgate.stores.memory.documents import MemoryDocuments
from millgate.stores.memory.records import MemoryRecords
from millgate.stores.memory.traces import MemoryTraces


class MemoryStore(MemoryDocuments, MemoryRecords, MemoryTraces, MemoryAccounts):
    """A store that lives as long as the process."""

    def __init__(self, *, clock: Clock = time) -> None:
        super().__init__(StoreLock(), clock)

    def close(self) -> None:
        self._lock.close()
