"""SqliteStore: one folder, one file, the only truth.

WAL mode: many processes read and write at once, and an acknowledged write survives kill -9 and a power cut.
Everything else beside it (full-text and vector indexes) is derived and follows the change feed.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import time

import orjson

from millgate.errors import StoreError
from millgate.protocols import Clock
from millgate.stores.chunk_rows import Row
from millgate.stores.codec import encode
from millgate.stores.sql.database import COLUMNS, HERE, LISTED, Link
from millgate.stores.sql.documents import MARK_S
from millgate.stores.sqlite.connection import Pool, retry_busy
from millgate.stores.sqlite.migrations import STEPS, migrate, version
from millgate.stores.sqlite.upkeep import SqliteUpkeep
from millgate.types import Edge

FILE = "millgate.db"
RESTORING = "millgate.db.restoring"
"""A file that lies beside the store while a restore takes its place and nothing else could tell."""
LOGGER = logging.getLogger("millgate.store")


# All chunks as one row: the columns before the text as JSON with the length of each text, and the texts as one run of
# bytes. Python lets another thread go first with every row that it reads. With rows, a request beside the thread that
# writes traces takes 5 % more CPU, and 64 requests at once 9 % more.
_CHUNKS = f"""SELECT json_group_array(json_array({COLUMNS.removesuffix("text")} length(CAST(text AS BLOB)))),
  CAST(group_concat(text, '') AS BLOB) FROM chunks WHERE {HERE} AND {LISTED}"""
_AT_ONCE = 100  # chunks a statement, which bounds what it holds in memory twice
_STRONGEST = """
SELECT source, predicate, target, weight, provenance FROM edges WHERE tenant = ? AND {}_key = ?
ORDER BY weight DESC, source, predicate, target LIMIT ?
"""
# most names of a request are no nodes: to look them all up at once takes a tenth of the time of one by one
_NODES = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM edges WHERE tenant = ? AND {}_key = value)"
_MARK = """
INSERT INTO index_marks VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, collection) DO UPDATE SET mark = excluded.mark, former = excluded.former
"""


class SqliteStore(SqliteUpkeep):
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
        self._reads = self._pool
        self._clock = clock
        self._tenant_bytes = tenant_bytes
        try:
            retry_busy(self._upgrade)
        except BaseException:  # the caller gets no store that it could close
            self.close()
            raise

    _pool: Pool

    @property
    def id(self) -> str:
        """What tells this store from every other: its file."""
        return str(self.path.resolve())

    def close(self) -> None:
        self._pool.close()

    def index_marks(self, tenant: str, collection: str) -> tuple[str, ...]:
        sql = f"SELECT mark, former FROM index_marks WHERE {HERE}"
        rows = self._pool.fetch(tenant, sql, (tenant, collection))
        return tuple(mark for row in rows for mark in row if mark)

    def mark_index(self, tenant: str, collection: str, mark: str, *, former: str) -> None:
        with self._pool.write(durable=False, patience_s=MARK_S) as connection:
            connection.execute(_MARK, (tenant, collection, mark, former))

    def _chunk_rows(self, tenant: str, collection: str, ids: Sequence[str]) -> Iterator[Row]:
        for at in range(0, len(ids), _AT_ONCE):
            asked = (tenant, collection, encode(ids[at : at + _AT_ONCE]))
            ((heads, texts),) = self._pool.fetch(tenant, _CHUNKS, asked)
            begin = 0
            for *head, length in orjson.loads(heads):
                yield (*head, str(texts[begin : begin + length], "utf-8"))
                begin += length

    def _strongest(
        self, tenant: str, nodes: Sequence[str], sides: Sequence[str], limit: int
    ) -> list[Row]:
        with self._pool.snapshot() as connection:
            return [
                row
                for side in sides
                for (node,) in connection.execute(
                    _NODES.format(side), (encode(nodes), tenant)
                ).fetchall()
                for row in connection.execute(_STRONGEST.format(side), (tenant, node, limit))
            ]

    def _count_edges(
        self, link: Link, tenant: str, edges: Sequence[Edge]
    ) -> AbstractContextManager[None]:
        return nullcontext()  # triggers count

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
        (self._secret,) = self.query("", "SELECT secret, created FROM store")


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
