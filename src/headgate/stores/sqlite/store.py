"""SqliteStore: one folder, one file, the only truth.

WAL mode: many processes read and write at once; what was acknowledged survives kill -9 and a power cut.
Everything else beside it (full-text and vector indexes) is derived and follows the change feed.
A put compares each document with what is there, row by row, so that only what differs is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from pathlib import Path
from time import time

from headgate.errors import StoreError
from headgate.protocols import Clock
from headgate.stores import validate
from headgate.stores.codec import encode
from headgate.stores.keys import SqliteKeys
from headgate.stores.sqlite.attachments import SqliteAttachments
from headgate.stores.sqlite.connection import Pool, patient
from headgate.stores.sqlite.migrations import STEPS, migrate, version
from headgate.stores.sqlite.records import SqliteLedger
from headgate.stores.sqlite.rows import COLUMNS, HERE, LISTED, Row, chunk
from headgate.stores.sqlite.writer import Writer
from headgate.types import Change, Chunk, Document, Size

FILE = "headgate.db"
PAGE = 1000  # chunks a scan reads at a time, so that a slow reader holds no snapshot open


class SqliteStore(SqliteAttachments, SqliteKeys, SqliteLedger):
    """A store in a folder. `max_bytes` bounds its file; `timeout_s` how long a writer waits its turn."""

    def __init__(
        self,
        folder: str | Path,
        *,
        timeout_s: float = 30.0,
        max_bytes: int | None = None,
        clock: Clock = time,
    ) -> None:
        self.path = home(Path(folder)) / FILE
        pool = Pool(self.path, timeout_s=timeout_s, max_bytes=max_bytes)
        super().__init__(pool, clock)
        try:
            patient(self._upgrade)
        except BaseException:  # nobody will have a store to close
            self.close()
            raise

    def put(self, tenant: str, documents: Sequence[Document]) -> int:
        incoming = validate.sort(tenant, documents)
        if not incoming:
            return 0
        with self._pool.write() as connection:
            return sum(
                Writer(connection, tenant, name).run(shelf) for name, shelf in incoming.items()
            )

    def remove(
        self,
        tenant: str,
        collection: str,
        *,
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
    ) -> int:
        with self._pool.write() as connection:
            writer = Writer(connection, tenant, collection)
            if documents is None and chunks is None:
                return writer.clear()
            return writer.drop(documents or ()) + writer.tear(chunks or ())

    def digests(
        self, tenant: str, collection: str, ids: Sequence[str] | None = None
    ) -> Mapping[str, str]:
        sql, values = f"SELECT id, digest FROM documents WHERE {HERE}", [tenant, collection]
        if ids is not None:
            sql, values = f"{sql} AND id {LISTED}", [*values, encode(ids)]
        with self._pool.read() as connection:
            return dict(connection.execute(sql, values))

    def collections(self, tenant: str) -> Mapping[str, Size]:
        with self._pool.read() as connection:
            rows = connection.execute(
                "SELECT collection, documents, chunks, chars FROM sizes"
                " WHERE tenant = ? AND documents > 0 ORDER BY collection",
                (tenant,),
            )
            return {name: Size(*counts) for name, *counts in rows}

    def chunks(self, tenant: str, collection: str, ids: Sequence[str]) -> list[Chunk]:
        with self._pool.read() as connection:
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM chunks WHERE {HERE} AND id {LISTED}",
                (tenant, collection, encode(ids)),
            )
            found = {row[0]: chunk(collection, row) for row in rows}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    def scan(self, tenant: str, collection: str, *, document: str | None = None) -> Iterator[Chunk]:
        only, values = "", [tenant, collection]
        if document is not None:
            only = f" AND place = (SELECT place FROM documents WHERE {HERE} AND id = ?)"
            values += [tenant, collection, document]
        sql = (
            f"SELECT place, {COLUMNS} FROM chunks WHERE {HERE}{only}"
            f" AND (place, position) > (?, ?) ORDER BY place, position LIMIT {PAGE}"
        )
        last: Row = (-1, -1)
        while True:
            with self._pool.read() as connection:
                rows = connection.execute(sql, (*values, *last)).fetchall()
            for row in rows:
                yield chunk(collection, row[1:])
            if len(rows) < PAGE:
                return
            last = (rows[-1][0], rows[-1][3])

    def head(self, tenant: str, collection: str) -> int:
        with self._pool.read() as connection:
            last = connection.execute(
                f"SELECT max(coalesce((SELECT max(seq) FROM chunks WHERE {HERE}), 0),"
                f" coalesce((SELECT max(seq) FROM removed WHERE {HERE}), 0))",
                (tenant, collection) * 2,
            ).fetchone()
            return int(last[0])

    def changes(
        self, tenant: str, collection: str, after: int, limit: int = 10_000
    ) -> list[Change]:
        span = (tenant, collection, after, max(limit, 0))
        with self._pool.snapshot() as connection:
            written = connection.execute(
                f"SELECT seq, place, {COLUMNS} FROM chunks"
                f" WHERE {HERE} AND seq > ? ORDER BY seq LIMIT ?",
                span,
            ).fetchall()
            gone = connection.execute(
                f"SELECT seq, id FROM removed WHERE {HERE} AND seq > ? ORDER BY seq LIMIT ?", span
            ).fetchall()
        lines = merge(
            (Change(seq, row[0], chunk(collection, row), place) for seq, place, *row in written),
            (Change(seq, id) for seq, id in gone),
            key=attrgetter("seq"),
        )
        return [line for line, _ in zip(lines, range(limit), strict=False)]

    def close(self) -> None:
        self._pool.close()

    def _upgrade(self) -> None:
        with self._pool.read() as connection:
            current = version(connection) == len(STEPS)
        if not current:
            with self._pool.write() as connection:
                migrate(connection, self.path)


def home(folder: Path) -> Path:
    """The folder of the store, made where it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise StoreError(
            f"{folder} is a file; a store is a folder", hint="name another path"
        ) from error
    except OSError as error:
        raise StoreError(
            f"the folder {folder} cannot be made: {error.strerror}",
            hint="check the path and its permissions",
        ) from error
    return folder
