"""Connections to one SQLite file: a small pool, transactions, and SQLite's errors in plain words.

A connection serves one thread at a time and goes back to the pool. Readers see a snapshot and never wait.
Writers begin IMMEDIATE: each waits its turn at the start, so that no transaction fails halfway because it
read before another one wrote. A connection that raised an error is closed, not reused.
Idle connections are closed before a fork: SQLite in a child that opens the same file would take the parent's locks for
its own, and what it writes would be lost when the parent closes.
"""

import errno
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any
from weakref import WeakSet

from millgate.calls.forks import check_process
from millgate.errors import MillgateError, NotReady, StoreError
from millgate.stores.chunk_rows import Row
from millgate.stores.codec import encode

if sys.platform != "win32":
    import fcntl

_IDLE = 8  # connections kept for the next call; a burst of threads opens more and closes them again
_POOLS: WeakSet["Pool"] = WeakSet()
_CACHE_KIB = 8_192  # of each connection: pages that a write changes; what is read comes through memory, below
# bytes of the file that are read through memory, a third faster than by calls
_MMAP_BYTES = 1 << 30
# The log shrinks back to this size after a large ingest. Chosen, not measured: small beside a store that needed more.
_WAL_BYTES = 64 << 20

# A disk with less has no room to open a store: the file that processes share takes 32 KiB, and the log a page or two.
_FULL_BYTES = 64 << 10

# What SQLite may say instead of FULL; READONLY if the store was opened for reading because the disk is full.
_OF_FULL_DISKS = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

_MESSAGES = {
    sqlite3.SQLITE_NOTADB: (
        "is not a database, or damaged",
        "restore it from a backup, or move it away and add your documents again",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged",
        "restore it from a backup, or save what can be read with: sqlite3 millgate.db .recover",
    ),
    sqlite3.SQLITE_FULL: (
        "cannot grow: the disk, or the store's limit, is full",
        "free disk space and try again; nothing of this write was kept, everything before it was",
    ),
    sqlite3.SQLITE_READONLY: (
        "cannot be written",
        "give this user write permission on the file and its folder",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened",
        "check that the folder exists and that this user may read and write it",
    ),
    sqlite3.SQLITE_PERM: ("cannot be opened", "check the permissions of the file and its folder"),
    sqlite3.SQLITE_BUSY: (
        "was held by another writer for too long",
        "try again, or give it a larger timeout",
    ),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "check the disk and its file system"),
    sqlite3.SQLITE_TOOBIG: ("cannot hold a value of that size", "cut the text into smaller parts"),
}


def translate(store: object, error: sqlite3.Error, folder: Path | None = None) -> StoreError:
    """SQLite's error as a StoreError that says what happened to which store, and what to do.

    `folder` is where the store lies: SQLite does not always say that a disk is full.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind
    if code in _OF_FULL_DISKS and folder and is_full(folder):
        code = sqlite3.SQLITE_FULL
    what, todo = _MESSAGES.get(code, ("failed", "if it happens again, report it with this message"))
    kind = NotReady if code == sqlite3.SQLITE_BUSY else StoreError
    return kind(f"the store {store} {what}: {error}", hint=todo)


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder has no room to open a store for writing."""
    try:
        return shutil.disk_usage(folder).free < _FULL_BYTES
    except OSError:
        return False


# What a statement for several databases says, and how SQLite says it. A writer begins IMMEDIATE, so that it locks more
# than FOR UPDATE asks for.
_SPELLINGS = (
    ("millgate.", ""),
    ("= ANY(?::text[])", "IN (SELECT value FROM json_each(?))"),
    ("= ANY(?::bigint[])", "IN (SELECT value FROM json_each(?))"),
    (" FOR UPDATE", ""),
    (" FOR SHARE", ""),
)  # fmt: skip


@cache
def spell(sql: str) -> str:
    """A statement that several databases understand, as SQLite takes it."""
    for theirs, ours in _SPELLINGS:
        sql = sql.replace(theirs, ours)
    return sql


def as_json(values: Collection[str | int]) -> str:
    """Texts or numbers as JSON, for `json_each(?)`."""
    return encode(list(values))


class Connection(sqlite3.Connection):
    """A connection that takes statements for several databases."""

    listed = staticmethod(as_json)

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]  # no names
        return super().execute(spell(sql), values)

    def run_many(self, sql: str, rows: Iterable[Row]) -> int:
        """Run a statement once for each row of values; how many rows it changed."""
        return max(self.executemany(spell(sql), rows).rowcount, 0)

    def insert(self, table: str, rows: Iterable[Row], *, on_conflict: str = "") -> int:
        """Insert rows of all columns; how many were inserted or, by the clause, updated."""
        lines = iter(rows)
        if (first := next(lines, None)) is None:
            return 0
        marks = ", ".join("?" * len(first))
        return self.run_many(
            f"INSERT INTO {table} VALUES ({marks}) {on_conflict}", chain([first], lines)
        )

    def lock_counter(self, tenant: str, name: str) -> None:
        """Nothing to do: one transaction writes at a time."""


class Pool:
    """Connections to one database file."""

    listed = staticmethod(as_json)

    def __init__(
        self,
        path: Path,
        *,
        timeout_s: float,
        max_bytes: int | None = None,
        read_only: bool = False,
        syncs: bool = True,
    ) -> None:
        self.path = path
        self._syncs = syncs
        self.read_only = read_only
        self.version: int | None = (
            None  # of the tables, once they are known to be those of this release
        )
        self._timeout = timeout_s
        self._max_bytes = max_bytes
        self._idle: list[Connection] = []
        self._file: tuple[int, int] | None = None
        self._closed = False
        self._lock = Lock()
        self._busy = 0
        self._process = os.getpid()
        _POOLS.add(self)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for single statements, each of which sees its own snapshot."""
        connection = self._take()
        try:
            yield connection
        except sqlite3.Error as error:
            self._refuse_upgraded(connection, error)
            connection.close()
            raise translate(self._shown_name(), error, self.path.parent) from error
        finally:
            self._give_back(connection)
            with self._lock:
                self._busy -= 1

    def fetch(
        self, tenant: str, sql: str, values: Sequence[Any] = (), *, binary: bool = False
    ) -> list[Row]:
        """The rows of one statement that reads."""
        with self.read() as connection:
            return connection.execute(sql, values).fetchall()

    def fetch_first(self, tenant: str, sql: str, *values: object) -> list[Row]:
        """The same for what every request reads."""
        return self.fetch(tenant, sql, values)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection on which several statements read the same snapshot."""
        with self.read() as connection, _transaction(connection, "DEFERRED"):
            yield connection

    @contextmanager
    def write(
        self, tenant: str = "", *, durable: bool = True, patience_s: float | None = None
    ) -> Iterator[Connection]:
        """One transaction: all of it or nothing. Durable ones also survive a power cut.

        `patience_s` is how long to wait for other writers; its default is the store's timeout.
        """
        with self.read() as connection:
            connection.execute(
                f"PRAGMA synchronous = {'FULL' if durable and self._syncs else 'NORMAL'}"
            )
            patience = self._timeout if patience_s is None else patience_s
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
            with _transaction(connection, "IMMEDIATE"):
                yield connection

    def directory(self, *, write: bool = False) -> AbstractContextManager[Connection]:
        """A connection for what is found without a tenant."""
        return self.write(durable=False) if write else self.read()

    def close(self) -> None:
        """Close idle connections now, and those in use when they come back."""
        if self._process == os.getpid():
            self._closed = True
            self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that nobody uses now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def is_inherited(self, path: Path) -> bool:
        """Whether a parent was using that file when this process was forked."""
        is_parents = self._process != os.getpid() and self.path.resolve() == path.resolve()
        return is_parents and bool(self._busy or self._idle)

    def _refuse_upgraded(self, connection: sqlite3.Connection, error: sqlite3.Error) -> None:
        """Say so if a statement failed because a newer release has changed the tables since this was opened."""
        try:
            (found,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error:
            return
        if self.version is not None and found > self.version:
            connection.close()
            raise NotReady(
                f"a newer release of millgate has upgraded the store {self._shown_name()}"
                f" (from version {self.version} to {found}) while this process had it open",
                retry_after=60.0,
                hint="restart this process with that release; nothing is lost",
            ) from error

    def _take(self) -> Connection:
        check_process(self._process)
        with self._lock:
            if self._closed:
                raise StoreError(f"the store {self._shown_name()} is closed", hint="open it again")
            if self._file is not None and self._file != _identity(self.path):
                raise StoreError(
                    f"the store {self._shown_name()} was moved, deleted or replaced while it was open",
                    hint="put it back, or close this Millgate and open it again",
                )
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except BaseException:
            with self._lock:
                self._busy -= 1
            raise

    def _give_back(self, connection: Connection) -> None:
        if not _is_usable(connection):
            return
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> Connection:
        if any(pool.is_inherited(self.path) for pool in list(_POOLS)):
            raise StoreError(
                f"the store {self.path} was in use when this process was forked, and cannot be used here",
                hint="fork while no call is under way, or start processes with spawn",
            )
        if self._file is None and not self.read_only:
            self._check_locks()
        try:
            connection = sqlite3.connect(
                self._address(),
                uri=True,
                timeout=self._timeout,
                isolation_level=None,
                check_same_thread=False,
                factory=Connection,
            )
        except sqlite3.Error as error:
            raise translate(self._shown_name(), error, self.path.parent) from error
        try:
            self._prepare(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise translate(self._shown_name(), error, self.path.parent) from error
            raise
        self._file = self._file or _identity(self.path)
        return connection

    def _check_locks(self) -> None:
        """Refuse a file system without locks, for which SQLite would wait as if another writer held them.

        The lock is that of a file beside the store: closing the store's own would drop all locks of this process on it.
        """
        if sys.platform == "win32":
            return
        try:
            with TemporaryFile(dir=self.path.parent) as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno == errno.ENOLCK:
                raise StoreError(
                    f"the store {self.path} cannot be locked: its file system has no locks ({error.strerror})",
                    hint="start its lock service (for NFS 3, rpc.statd), or keep the store on a local disk",
                ) from error

    def _shown_name(self) -> str:
        """What errors call the store. While it is opened that is its path. Later errors may reach callers of a service,
        who should not see a path of this machine.
        """
        return str(self.path) if self._file is None else repr(self.path.absolute().parent.name)

    def _address(self) -> str:
        """The file as an address that makes a new file only the first time, and never if it may only be read."""
        if not self.read_only:
            mode = "mode=rwc" if self._file is None else "mode=rw"
        elif self.path.with_name(f"{self.path.name}-wal").exists():
            mode = "mode=ro"
        else:  # no process writes, and SQLite could not make the files it shares with writers
            mode = "immutable=1"
        return f"{self.path.resolve().as_uri()}?{mode}"

    def _prepare(self, connection: sqlite3.Connection) -> None:
        execute = connection.execute
        if not self.read_only:
            execute("PRAGMA journal_mode = WAL")
        execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")
        execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        execute("PRAGMA temp_store = MEMORY")
        if self._max_bytes is not None:
            (page,) = execute("PRAGMA page_size").fetchone()
            execute(f"PRAGMA max_page_count = {max(1, self._max_bytes // page)}")


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    try:
        connection.execute(f"BEGIN {kind}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from every other, whatever it is called; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_usable(connection: sqlite3.Connection) -> bool:
    try:
        return not connection.in_transaction and connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def retry_busy(action: Callable[[], None], *, tries: int = 5) -> None:
    """Run the action, again if another process is opening the same new file."""
    for left in reversed(range(tries)):
        try:
            return action()
        except MillgateError as error:
            cause = error.__cause__
            busy = getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or not left:
                raise
    return None


def _close_idle() -> None:
    for pool in list(_POOLS):
        pool.close_idle()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_close_idle)
