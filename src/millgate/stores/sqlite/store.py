"""SqliteStore: one folder, one file, the only truth.

WAL mode: many processes read and write at once, and an acknowledged write survives kill -9 and a power cut.
Everything else beside it (full-text and vector indexes) is derived and follows the change feed.
"""

import logging
import os
from pathlib import Path
from time import time

from millgate.errors import StoreError
from millgate.protocols import Clock
from millgate.stores.sqlite.accounts import SqliteAccounts
from millgate.stores.sqlite.connection import Pool, retry_busy
from millgate.stores.sqlite.documents import SqliteDocuments
from millgate.stores.sqlite.migrations import STEPS, migrate, version
from millgate.stores.sqlite.records import SqliteRecords
from millgate.stores.sqlite.traces import SqliteTraces
from millgate.stores.sqlite.upkeep import SqliteUpkeep

FILE = "millgate.db"
RESTORING = "millgate.db.restoring"
"""A file that lies beside the store while a restore takes its place and nothing else could tell."""
LOGGER = logging.getLogger("millgate.store")


class SqliteStore(
    SqliteDocuments,
    SqliteRecords,
    SqliteTraces,
    SqliteAccounts,
    SqliteUpkeep,
):
    """A store in a folder. `max_bytes` bounds its file, `tenant_bytes` what one tenant may hold; `timeout_s` is how
    long a writer waits its turn. Without `syncs` no write waits for the disk.

    A folder that this process may not write to is opened for reading, as with `read_only`; every write is an error
    then.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        timeout_s: float = 30.0,
        max_bytes: int | None = None,
        tenant_bytes: int | None = None,
        clock: Clock = time,
        read_only: bool = False,
        syncs: bool = True,
    ) -> None:
        self.path = Path(folder).absolute() / FILE  # the program may go to another folder
        self.read_only = read_only or _may_only_read(self.path)
        _refuse_half_restored(self.path.parent)
        if not self.read_only:
            _make_folder(self.path.parent)
            _make_private(self.path)
        self._pool = Pool(
            self.path,
            timeout_s=timeout_s,
            max_bytes=max_bytes,
            read_only=self.read_only,
            syncs=syncs,
        )
        self._clock = clock
        self._tenant_bytes = tenant_bytes
        try:
            retry_busy(self._upgrade)
        except BaseException:  # the caller gets no store that it could close
            self.close()
            raise

    @property
    def id(self) -> str:
        """What tells this store from every other: its file."""
        return str(self.path.resolve())

    def close(self) -> None:
        self._pool.close()

    def _upgrade(self) -> None:
        with self._pool.read() as connection:
            current = version(connection) == len(STEPS)
        if not current and self.read_only:
            raise StoreError(
                f"the store {self.path} has an older format and can only be read here",
                hint="open it once where it can be written, and it is brought up to date",
            )
        if not current:
            with self._pool.write() as connection:
                migrate(connection, self.path)
        self._pool.version = len(STEPS)


def has_store(folder: Path) -> bool:
    """Whether a folder holds a store; an error if this user may not look."""
    try:
        return (folder / FILE).is_file()
    except OSError as error:
        raise StoreError(
            f"cannot look for a store in {folder}: {error.strerror}",
            hint="give this user the right to read the folder and those above it, or name another with --store",
        ) from error


def _refuse_half_restored(folder: Path) -> None:
    if (folder / RESTORING).exists():
        raise StoreError(
            f"a restore into {folder} is under way, or was stopped halfway",
            hint=f"restore again: millgate store restore BACKUP --store {folder} --replace;"
            f" the former store is {folder / FILE}.before-...",
        )


def _may_only_read(path: Path) -> bool:
    """Whether there is a store that this process may read but not write."""
    there = has_store(path.parent)
    return there and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _make_folder(folder: Path) -> None:
    """Make the folder of a store. A new one is kept out of git, where `git add -A` would publish what was asked."""
    try:
        is_new = not folder.exists()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_new:
            ignore = folder / ".gitignore"
            ignore.touch(mode=0o600)
            ignore.write_text("*\n")
    except FileExistsError as error:
        raise StoreError(
            f"{folder} is a file; a store is a folder", hint="name another path"
        ) from error
    except OSError as error:
        raise StoreError(
            f"the folder {folder} cannot be made: {error.strerror}",
            hint="check the path and its permissions",
        ) from error


def _make_private(path: Path) -> None:
    """Make the file for its owner alone, as SQLite then makes those beside it; warn if others may read it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        if os.name == "posix" and path.stat().st_mode & 0o077:
            LOGGER.warning("others on this machine may read the store %s; run: chmod 600", path)
    except OSError:
        pass  # opening the database says what is wrong, in its own words
