"""Backup and restore: one file that holds everything that must not be lost.

SQLite writes a copy of one moment in a single step (VACUUM INTO), however busy the store is. The copy is checked before
it gets its name. Indexes are derived and not in it; they are made anew after a restore, and one that lies beside the
restored file is not believed. A copy holds all that the store holds, so it is its owner's alone from its first byte on.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from millgate.errors import InputError, StoreError
from millgate.operations.presence import existing
from millgate.stores.sqlite.connection import translate
from millgate.stores.sqlite.migrations import APPLICATION, STEPS, version
from millgate.stores.sqlite.store import FILE, RESTORING

OnBytes = Callable[[int, int], None]
"""Is told how many bytes are written, and about how many there will be."""

_COPIED_BYTES = 1 << 20  # at a time
_STEPS = 200_000  # instructions of SQLite between two reports, some milliseconds


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was written and checked."""

    path: Path
    bytes: int
    chunks: int
    seconds: float


def backup(folder: Path, target: Path, *, on_bytes: OnBytes | None = None) -> Backup:
    """Copy the store of a folder to `target`/millgate.db; it may be in use at the same time."""
    began = time.monotonic()
    source = existing(folder)
    made = target / FILE
    if made.exists():
        raise InputError(f"{made} exists already", hint="name an empty folder for the backup")
    partial = target / f"{FILE}.{os.getpid()}.tmp"
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private(partial).close()  # SQLite writes into an empty file too
        _copy(source, partial, on_bytes)
        chunks = verify(partial)
        partial.replace(made)
    except OSError as error:
        raise StoreError(f"the backup cannot be written: {error}", hint=_hint(error)) from error
    finally:
        partial.unlink(missing_ok=True)
    return Backup(made, made.stat().st_size, chunks, time.monotonic() - began)


def restore(source: Path, folder: Path, *, replace: bool = False) -> Backup:
    """Put a backup in the place of a store; with `replace` a store that is there is moved aside.

    A process that has the former store open gets a clear error and must open it again.
    """
    began = time.monotonic()
    copy = source / FILE if source.is_dir() else source
    if not copy.is_file():
        raise InputError(f"there is no backup at {source}", hint="name its folder or file")
    verify(copy)
    made = folder / FILE
    if made.exists() and not replace:
        raise InputError(f"there is a store in {folder} already", hint="add --replace to move it aside")  # fmt: skip
    partial = folder / f"{FILE}.{os.getpid()}.tmp"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with copy.open("rb") as held, create_private(partial) as file:
            _give_to_owner(file.fileno(), folder)
            shutil.copyfileobj(held, file, _COPIED_BYTES)
            file.flush()
            os.fsync(file.fileno())
        chunks = verify(partial)
        _put_aside(made)
        partial.replace(made)
        (folder / RESTORING).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"the store cannot be restored: {error}", hint=_hint(error)) from error
    finally:
        partial.unlink(missing_ok=True)
    return Backup(made, made.stat().st_size, chunks, time.monotonic() - began)


def _give_to_owner(descriptor: int, folder: Path) -> None:
    """Give a file that root made to the owner of its folder: the service that runs as that user must read it."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _hint(error: OSError) -> str:
    denied = isinstance(error, PermissionError)
    return f"{'let this user write there' if denied else 'free some space'}, or name another folder"


def create_private(path: Path, *, replace: bool = False) -> BinaryIO:
    """A new file that only its owner can read, at no moment anybody else; with `replace` a former one is emptied."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
    return os.fdopen(descriptor, "wb")


def verify(path: Path) -> int:
    """Check that a file is a whole store that this release can read; how many chunks it holds."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
            if owner != APPLICATION or not 0 < version(connection) <= len(STEPS):
                raise StoreError(f"{path} is not a store that this release can read")
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise StoreError(f"{path} is damaged: {found}", hint="take another backup")
            (chunks,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
            return int(chunks)
    except sqlite3.Error as error:
        raise translate(path, error) from error


def _copy(source: Path, target: Path, on_bytes: OnBytes | None) -> None:
    try:
        _vacuum_into(source.resolve().as_uri(), source, target, on_bytes)
    except sqlite3.Error as error:
        wal = source.with_name(f"{FILE}-wal")  # one that is empty may be of the attempt
        if wal.exists() and wal.stat().st_size:
            raise translate(source, error, source.parent) from error
        # On a disk that is full or can only be read, SQLite has no room for the files that it shares with writers. No
        # process writes there, and the file itself is whole.
        target.unlink(missing_ok=True)
        try:
            _vacuum_into(f"{source.resolve().as_uri()}?immutable=1", source, target, on_bytes)
        except sqlite3.Error as again:
            raise translate(source, again, target.parent) from again
    with target.open("rb+") as file:
        os.fsync(file.fileno())


def _vacuum_into(address: str, source: Path, target: Path, on_bytes: OnBytes | None) -> None:
    connection = sqlite3.connect(address, uri=True, timeout=30.0, isolation_level=None)
    with closing(connection):
        total = source.stat().st_size

        def report() -> int:
            with suppress(OSError):
                assert on_bytes is not None
                on_bytes(target.stat().st_size, total)
            return 0

        if on_bytes is not None:
            connection.set_progress_handler(report, _STEPS)
        connection.execute("VACUUM INTO ?", (str(target),))


def _put_aside(path: Path) -> None:
    """Let a store have a second name, and take its log out of the way, which must not meet another database.

    The log is folded into the file first, so that a restore which is killed leaves the store as it was. If it cannot be
    folded (the file is damaged, or a reader holds it), a file says that a restore is under way, and no store is opened
    beside that.
    """
    if not path.exists():
        return
    wal = path.with_name(f"{path.name}-wal")
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=1.0)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if wal.exists() and wal.stat().st_size:
        path.with_name(RESTORING).touch(mode=0o600)
    mark = time.strftime("%Y%m%d-%H%M%S")
    names = (f"{path.name}.before-{mark}-{n}" for n in count(1))
    aside = next(one for name in names if not (one := path.with_name(name)).exists())
    try:
        aside.hardlink_to(path)
    except OSError:  # a file system without second names
        shutil.copy2(path, aside)
    for suffix in ("-wal", "-shm"):
        former = path.with_name(f"{path.name}{suffix}")
        if former.exists():
            former.replace(aside.with_name(f"{aside.name}{suffix}"))
