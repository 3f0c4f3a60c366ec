"""ConversationState: what the proxy must remember of a conversation, shared by the workers of a machine.

That is the blocks that it injected, the ids of answers that were resumed, requests whose answer looped, and reasoning
that was cut; and for the dashboard who is signed in: small values by key, kept for as long as conversations last. The
first value under a key stays, and a later writer gets it back unless it replaces it. What is replaced is read with
`get_replaced`, since another worker may have done so.

The values stand in a SQLite file beside the store, or
in a store that gateways share, and the latest of them in memory too. Without either, memory alone holds them. `failure`
says why the values cannot be kept; memory goes on.
"""

import asyncio
import os
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import orjson

from millgate.calls.bugs import describe
from millgate.errors import StoreError
from millgate.protocols import SharedState, Store
from millgate.settings import Settings
from millgate.stores.open import folder_of

MEMORY = 4096  # values kept in memory
# bytes of these values together: a usual block has 4 kB, a caller may ask for a hundred times that
MEMORY_BYTES = 32 << 20
ROWS = 100_000  # values kept in the file; beyond, the oldest go
FILE_BYTES = 1 << 30  # size of the file beyond which the oldest quarter goes
AGE_S = 30 * 86_400.0  # age beyond which values are deleted; chosen, not measured
PRUNE_EVERY = (
    500  # writes between two deletions of old values, so that one write in 500 pays for it
)


_INSERT = "INSERT OR IGNORE INTO remembered VALUES (?, ?, ?)"
_REPLACE = "INSERT OR REPLACE INTO remembered VALUES (?, ?, ?)"
_READ = "SELECT value FROM remembered WHERE key = ?"


@dataclass(eq=False)
class ConversationState:
    """Values by key; the first one written stays."""

    path: Path | None = None
    shared: SharedState | None = None
    tenant: str = ""
    memory_bytes: int = MEMORY_BYTES
    file_bytes: int = FILE_BYTES
    makes_folder: bool = False
    failure: str = ""
    """Why values cannot be kept, if so, until one is read or written again. A header tells it to callers."""
    # not a Cache: without a file this is the only copy, which a fork must leave
    _memory: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict)
    _connection: sqlite3.Connection | None = None
    # values on their way to the file or the shared store
    _writing: dict[bytes, bytes] = field(default_factory=dict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)
    _writes: int = 0

    async def get(self, key: bytes) -> bytes | None:
        """The value under a key, or None."""
        return (await self.get_all([key])).get(key)

    async def get_replaced(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values under those of some keys that have one, as the worker wrote them that was last to replace them."""
        if not self.is_kept:
            return {key: self._memory[key] for key in keys if key in self._memory}
        return await asyncio.to_thread(self._read, keys)

    async def get_all(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values under those of some keys that have one."""
        found = {key: self._memory[key] for key in keys if key in self._memory}
        for key in found:
            self._memory.move_to_end(key)
        missing = [key for key in keys if key not in found]
        if missing and self.is_kept:
            read = await asyncio.to_thread(self._read, missing)
            found |= {key: self._keep(key, value) for key, value in read.items()}
            for key in missing:
                value = self._memory.get(key, self._writing.get(key))
                if value is not None:
                    found.setdefault(key, value)
        return found

    @property
    def is_kept(self) -> bool:
        """Whether values outlive this process."""
        return self.path is not None or self.shared is not None

    async def put(self, key: bytes, value: bytes, *, replace: bool = False) -> bytes:
        """Remember a value, unless there is one that it does not `replace`; the one that stays."""
        if self.is_kept:
            self._writing[key] = value
            try:
                value = await asyncio.to_thread(self._write, key, value, replace=replace)
            finally:
                self._writing.pop(key, None)
        if replace and self.is_kept:
            return value  # another worker may replace it again
        if replace and (old := self._memory.pop(key, None)) is not None:
            self._bytes -= len(old)
        return self._keep(key, value)

    async def put_all(self, values: Mapping[bytes, bytes]) -> None:
        """Remember values unless there are any; from now on, though writing takes its time.

        A client that has the last event of an answer asks again at once.
        """
        if self.is_kept:
            self._writing.update(values)
        try:
            for key, value in values.items():
                await self.put(key, value)
        finally:
            for key in values:
                self._writing.pop(key, None)

    async def stored_answer(self, tenant: str, id: str) -> str:
        """The id under which the upstream has stored the answer that a client of the tenant knows by this id.

        After a rollback the client knows an answer by the id of its first call, and the upstream by that of the last.
        """
        stored = await self.get(answer_key(tenant, id))
        return stored.decode() if stored else id

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _keep(self, key: bytes, value: bytes) -> bytes:
        if key in self._memory:
            return self._memory[key]
        self._memory[key] = value
        self._bytes += len(value)
        while len(self._memory) > MEMORY or self._bytes > self.memory_bytes:
            self._bytes -= len(self._memory.popitem(last=False)[1])
        return value

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        """Go on without what is kept if it cannot be reached, and say why."""
        try:
            yield
        except StoreError as error:
            self.failure = error.message
        except (sqlite3.Error, OSError) as error:
            self.failure = describe(error)
        else:
            self.failure = ""

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with self._noting_failure():
            if self.shared is not None:
                found = self.shared.recall(self.tenant, keys)
            else:
                with self._lock:
                    for key in keys:
                        rows = self._open().execute(_READ, (key,))
                        found.update((key, value) for (value,) in rows)
        return found

    def _write(self, key: bytes, value: bytes, *, replace: bool = False) -> bytes:
        with self._noting_failure():
            if self.shared is not None:
                value = self.shared.remember(self.tenant, key, value, replace=replace)
            else:
                with self._lock, self._open() as connection:
                    sql = _REPLACE if replace else _INSERT
                    connection.execute(sql, (key, value, time.time()))
                    self._prune(connection)
                    value = next(
                        (bytes(kept) for (kept,) in connection.execute(_READ, (key,))), value
                    )
        return value

    def _prune(self, connection: sqlite3.Connection) -> None:
        self._writes += 1
        if self._writes % PRUNE_EVERY != 1:
            return
        connection.execute("DELETE FROM remembered WHERE written < ?", (time.time() - AGE_S,))
        connection.execute(
            "DELETE FROM remembered WHERE written < (SELECT written FROM remembered "
            "ORDER BY written DESC LIMIT 1 OFFSET ?)",
            (ROWS,),
        )
        # of the database without its free pages
        size, pages, free = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        if size * (pages - free) > self.file_bytes:
            connection.execute(
                "DELETE FROM remembered WHERE written <= (SELECT written FROM remembered "
                "ORDER BY written LIMIT 1 OFFSET (SELECT count(*) / 4 FROM remembered))"
            )

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            assert self.path is not None
            if self.makes_folder:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(self.path, timeout=5, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS remembered "
                "(key BLOB PRIMARY KEY, value BLOB NOT NULL, written REAL NOT NULL) WITHOUT ROWID"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS by_age ON remembered (written)")
            self._connection = connection
        return self._connection


def open_conversations(store: Store, settings: Settings) -> ConversationState:
    """In the store if gateways share it, else in a file beside the store."""
    if isinstance(store, SharedState):
        return ConversationState(shared=store, tenant=settings.tenant)
    folder = folder_of(settings.store)
    return ConversationState(folder / "proxy.db" if folder else None)


def open_folds(remembered: ConversationState) -> ConversationState:
    """Where it is kept from which message on each conversation is folded, so that a resumed one is folded as before.

    Without a store that is a file of this user. It holds digests and numbers, and nothing that was said.
    """
    if remembered.is_kept:
        return remembered
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        return remembered
    return ConversationState(home / ".local" / "state" / "millgate" / "folds.db", makes_folder=True)


def answer_key(tenant: str, id: str) -> bytes:
    """The key under which stands the id by which the upstream has stored an answer."""
    return b"answer:" + orjson.dumps([tenant, id])
