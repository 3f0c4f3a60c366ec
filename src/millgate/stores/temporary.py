"""TemporaryStore: the store that ':memory:' names, SQLite in a private folder that goes with its process.

The folder lies on a file system in memory if there is one with room, else among the temporary files. It is deleted
when the store is closed or forgotten and when the process ends, never by a forked child: its parent still needs it.
A process holds a lock on its folder, so that what a killed one left is deleted by the next.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from weakref import finalize

from millgate.errors import StoreError
from millgate.protocols import Clock
from millgate.stores.sqlite.connection import Pool
from millgate.stores.sqlite.store import SqliteStore

if sys.platform != "win32":  # which deletes no file that is open
    import fcntl

_MEMORY = Path("/dev/shm")  # noqa: S108  (the folder in it is made for this user alone)
_PREFIX = "millgate-memory-"
_ROOM = (
    1 << 30
)  # a container has 64 MiB there if nobody says otherwise, which a few thousand documents fill
_NEW_S = 60.0  # a folder that is younger may not be locked yet


class TemporaryStore(SqliteStore):
    """A store that lives as long as the process."""

    def __init__(self, *, clock: Clock = time.time, tenant_bytes: int | None = None) -> None:
        folder = _make_folder()
        lock = _lock(folder)
        super().__init__(folder, clock=clock, tenant_bytes=tenant_bytes, syncs=False)
        self._delete_folder = finalize(self, _delete, self._pool, folder, lock, os.getpid())

    def close(self) -> None:
        super().close()
        self._delete_folder()


def _make_folder() -> Path:
    try:
        places = [Path(tempfile.gettempdir())]
        if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
            places.insert(0, _MEMORY)
        for left in places[0].glob(f"{_PREFIX}*"):
            _delete_left(left)
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=places[0]))
    except OSError as error:
        raise StoreError(
            f"the store ':memory:' finds no folder that it may write to: {error}",
            hint="let TMPDIR name one, or name a folder in place of ':memory:'",
        ) from error


def _lock(folder: Path) -> int | None:
    """Hold a lock on a folder for as long as this process, or one that it forks, lives; None if another holds it."""
    if sys.platform == "win32":
        return None
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _delete_left(folder: Path) -> None:
    """Delete the folder of a process that was killed."""
    try:
        if time.time() - folder.stat().st_mtime > _NEW_S and (held := _lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)
    except OSError:
        pass  # another user's, or another process is deleting it


def _delete(pool: Pool, folder: Path, lock: int | None, owner: int) -> None:
    pool.close()
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)
