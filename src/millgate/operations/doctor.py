"""Doctor: what is wrong with this installation, and what to do about it.

`examine` looks and changes nothing: versions, settings, the store and its folder, free space on the disk, limits of the
process, keys. `check_contents` reads all that a store holds, and with `repair` mends what is derived.
"""

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from millgate import __version__
from millgate.errors import MillgateError
from millgate.operations.check import check, check_store
from millgate.settings import Settings
from millgate.stores.open import open_store
from millgate.stores.sql.store import SqlStore
from millgate.stores.sqlite.store import FILE, SqliteStore, has_store
from millgate.stores.url import is_postgres

State = Literal["ok", "warning", "problem"]

_OLDEST_SQLITE = (3, 37, 0)
_FILES = 1024  # descriptors; a service with many tenants and clients needs as many
_MIN_FREE = (
    2.0  # times the database that should be free: a backup or a compaction writes it once more
)
_WAL_BYTES = 256 << 20
_EXTRAS = {
    "fastapi": "service",
    "httpx2": "http",
    "mcp": "mcp",
    "psycopg": "postgres",
    "usearch": "vectors",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that was looked at: how it is, and what to do if it is not well."""

    part: str
    state: State
    what: str
    todo: str = ""


def examine(settings: Settings, folder: Path | None) -> list[Advice]:
    """Everything there is to say, in the order of a walk from the machine to the store."""
    return [
        *_check_versions(),
        *_check_limits(),
        *(_check_database(settings.store) if is_postgres(settings.store) else _check_store(folder)),
        *_check_service(settings),
    ]


def check_contents(name: str, folder: Path | None, *, repair: bool = False) -> list[Advice]:
    """What is wrong with what the store of a name holds, one advice for each finding."""
    if is_postgres(name):
        opened, indexes = open_store(name, clock=time.time)
        assert isinstance(opened, SqlStore)
        assert indexes is not None
        try:
            found = check_store(opened, indexes, repair=repair)
        finally:
            opened.close()
    elif folder is None or not has_store(folder):
        return []
    else:
        found = check(folder, repair=repair)
    if not found:
        return [Advice("contents", "ok", "everything in the store is as it should be")]
    todo = "" if repair else "what is derived can be mended: millgate doctor --repair"
    return [
        Advice("contents", "ok", f"repaired: {one.what}")
        if one.repaired
        else Advice("contents", "problem", one.what, todo)
        for one in found
    ]


def _check_versions() -> Iterator[Advice]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Advice("millgate", "ok", f"{__version__} on Python {python}")
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        yield Advice("sqlite", "problem", f"SQLite {sqlite3.sqlite_version} is too old", "use a Python with SQLite 3.37 or newer")  # fmt: skip
    else:
        yield Advice("sqlite", "ok", f"SQLite {sqlite3.sqlite_version}")
    missing = sorted(extra for module, extra in _EXTRAS.items() if find_spec(module) is None)
    if missing:
        yield Advice("extras", "ok", f"not installed: {', '.join(missing)}", f"if you need them, in the clone of the repository: pip install '.[{','.join(missing)}]'")  # fmt: skip


def _check_limits() -> Iterator[Advice]:
    try:
        import resource  # noqa: PLC0415  Windows has none
    except ImportError:
        return
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < _FILES:
        yield Advice("files", "warning", f"a process may open {most:,} files", f"run: ulimit -n {_FILES}")  # fmt: skip
    else:
        yield Advice("files", "ok", f"a process may open {most:,} files")


def _check_store(folder: Path | None) -> Iterator[Advice]:
    if folder is None:
        yield Advice("store", "warning", "it is in memory and gone with the process", "name a folder: store = \"kb\"")  # fmt: skip
        return
    path = folder / FILE
    try:
        there = has_store(folder)
    except MillgateError as error:
        yield Advice("store", "problem", error.message, error.hint)
        return
    if not there:
        yield Advice("store", "ok", f"there is none in {folder} yet", "it is made by the first millgate add")  # fmt: skip
        return
    try:
        store = SqliteStore(folder)
        try:
            damage = store.integrity()
            traces = store.query("", "SELECT coalesce(sum(size), 0) FROM traces")[0][0]
            free = store.query("", "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")[0][0]  # fmt: skip
        finally:
            store.close()
    except MillgateError as error:
        yield Advice("store", "problem", error.message, error.hint)
        return
    if damage:
        yield Advice("store", "problem", f"{path} is damaged: {damage[0]}", "restore a backup: millgate store restore")  # fmt: skip
        return
    yield Advice("store", "ok", f"{path} is sound, {_mb(path.stat().st_size)}, {_mb(traces)} of it traces")  # fmt: skip
    yield from _check_folder(folder, path, free)


def _check_database(url: str) -> Iterator[Advice]:
    """A PostgreSQL store: whether it answers, as whom, and what its indexes on this machine take."""
    try:
        opened, folder = open_store(url, clock=time.time)
    except MillgateError as error:
        yield Advice("store", "problem", error.message, error.hint)
        return
    from millgate.stores.postgres.store import PostgresStore  # noqa: PLC0415  an extra

    assert isinstance(opened, PostgresStore)
    try:
        size = sum(opened.tables().values())
        yield Advice("store", "ok", f"{opened.address} answers: {opened.server()}, {_mb(size)}")
        if todo := opened.policy_advice():
            yield Advice("store", "warning", "this role sees all tenants' rows: queries alone keep them apart", todo)  # fmt: skip
        if local := opened.local_tables():
            what = f"this server has Citus, and {len(local)} tables of the store are on the coordinator alone"
            yield Advice("store", "warning", what, "run: millgate store distribute")
        if away := opened.unreachable_workers():
            yield Advice("workers", "problem", f"they cannot be reached: {', '.join(away)}", "start them: their tenants are refused meanwhile")  # fmt: skip
    finally:
        opened.close()
    if folder is not None:
        yield Advice("indexes", "ok", f"they are in {folder}, {_mb(shutil.disk_usage(folder).free)} are free there")  # fmt: skip


def _check_folder(folder: Path, path: Path, free: int) -> Iterator[Advice]:
    size = path.stat().st_size
    if not os.access(folder, os.W_OK) or not os.access(path, os.W_OK):
        yield Advice("folder", "warning", f"{folder} can only be read", "give this user write permission, or leave it so on purpose")  # fmt: skip
    if os.name == "posix" and path.stat().st_mode & 0o077:
        yield Advice("folder", "warning", f"others on this machine can read {path}", f"run: chmod -R go= {folder}")  # fmt: skip
    if free > size / 2 and free > 50 << 20:
        yield Advice("space", "warning", f"{_mb(free)} of {_mb(size)} are free pages", "run: millgate store compact")  # fmt: skip
    wal = path.with_name(f"{FILE}-wal")
    if wal.exists() and wal.stat().st_size > _WAL_BYTES:
        yield Advice("space", "warning", f"the log has {_mb(wal.stat().st_size)}", "a reader or writer is stuck: find the process that holds the store")  # fmt: skip
    free = shutil.disk_usage(folder).free
    if free < _MIN_FREE * size:
        yield Advice("disk", "warning", f"{_mb(free)} are free, and the store has {_mb(size)}", "free some space: a backup and a compaction write it once more")  # fmt: skip
    else:
        yield Advice("disk", "ok", f"{_mb(free)} are free")


def _check_service(settings: Settings) -> Iterator[Advice]:
    policy = settings.service
    if policy.host not in ("127.0.0.1", "localhost", "::1"):
        yield Advice("service", "ok", f"it listens on {policy.host}:{policy.port}, which others can reach", "it starts only when an API key exists")  # fmt: skip


def _mb(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"
