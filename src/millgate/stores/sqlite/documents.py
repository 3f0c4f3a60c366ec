"""SqliteDocuments: documents, chunks with what is attached to them, and the change feed of the SQLite store.

A put compares each document with what the store holds, row by row, so that only what differs is written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from millgate.stores.chunk_rows import Row, from_row
from millgate.stores.codec import encode
from millgate.stores.sqlite.connection import Pool
from millgate.stores.sqlite.rows import COLUMNS, HERE, LISTED, check_quota, read_chunks
from millgate.stores.sqlite.writer import CollectionWriter
from millgate.stores.validate import check_attachments, check_documents, check_name
from millgate.types import Attachment, Change, Chunk, Document, Size

# Seconds that saving an index waits for other writers; after that it is saved later. Chosen, not measured: saving is
# background work, so a writer must never wait long behind it.
_MARK_S = 1.0
_CLEAR = 5_000  # chunks that go in one transaction when a collection is emptied, some 50 ms
_PAGE = 1000  # chunks a scan reads at a time, so that a slow reader holds no snapshot open
_ATTACH = """
REPLACE INTO attachments SELECT tenant, collection, id, ?, ? FROM chunks
WHERE tenant = ? AND collection = ? AND id = ? AND seq <= ?
"""
_ATTACHMENTS = f"SELECT id, value FROM attachments WHERE {HERE} AND kind = ? AND id {LISTED}"
_LAST_SEQ = 2**63 - 1


class SqliteDocuments:
    """Documents in the tables `documents`, `chunks`, `attachments`, `removed` and `sizes`."""

    _pool: Pool
    _tenant_bytes: int | None

    def put(
        self, tenant: str, documents: Sequence[Document], *, attachments: Iterable[Attachment] = ()
    ) -> int:
        incoming = check_documents(tenant, documents)
        if not incoming:
            return 0
        beside = check_attachments(attachments, incoming)
        with self._pool.write() as connection:
            changed = grown = 0
            for name, by_id in incoming.items():
                writer = CollectionWriter(connection, tenant, name)
                changed += writer.put(by_id)
                grown += writer.grown
            rows = ((tenant, *attachment) for attachment in beside)
            connection.executemany("REPLACE INTO attachments VALUES (?, ?, ?, ?, ?)", rows)
            if grown > 0:
                check_quota(connection, tenant, self._tenant_bytes)
            return changed

    def amend_chunks(
        self, tenant: str, collection: str, ids: Sequence[str], change: Callable[[Chunk], Chunk]
    ) -> int:
        with self._pool.write() as connection:
            writer = CollectionWriter(connection, tenant, collection)
            changed = writer.amend(ids, change)
            if writer.grown > 0:
                check_quota(connection, tenant, self._tenant_bytes)
        return changed

    def remove(
        self,
        tenant: str,
        collection: str,
        *,
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
    ) -> int:
        if documents is None and chunks is None:
            return self._clear(tenant, collection)
        with self._pool.write() as connection:
            writer = CollectionWriter(connection, tenant, collection)
            return writer.remove_documents(documents or ()) + writer.remove_chunks(chunks or ())

    def _clear(self, tenant: str, collection: str) -> int:
        """Empty a collection, some documents at a time, so that others get their turn and the log stays small."""
        gone = 0
        while True:
            with self._pool.write() as connection:
                writer = CollectionWriter(connection, tenant, collection)
                removed, left = writer.clear_some(_CLEAR)
            gone += removed
            if not left:
                return gone

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

    def size(self, tenant: str, collection: str) -> Size:
        with self._pool.read() as connection:
            row = connection.execute(
                f"SELECT documents, chunks, chars FROM sizes WHERE {HERE}", (tenant, collection)
            ).fetchone()
        return Size(*row) if row else Size()

    def chunks(self, tenant: str, collection: str, ids: Sequence[str]) -> list[Chunk]:
        with self._pool.read() as connection:
            found = {c.id: c for c in read_chunks(connection, tenant, collection, ids)}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    def scan(self, tenant: str, collection: str, *, document: str | None = None) -> Iterator[Chunk]:
        last: Row = (-1, -1)
        after, values = "(place, position) > (?, ?)", [tenant, collection]
        if document is not None:
            # without its place SQLite would read all that stands before it
            after = (
                f"place = (SELECT place FROM documents WHERE {HERE} AND id = ?) AND position > ?"
            )
            values, last = [*values, *values, document], (-1,)
        sql = f"SELECT place, {COLUMNS} FROM chunks WHERE {HERE} AND {after} ORDER BY place, position LIMIT {_PAGE}"
        while True:
            with self._pool.read() as connection:
                rows = connection.execute(sql, (*values, *last)).fetchall()
            for row in rows:
                yield from_row(collection, row[1:])
            if len(rows) < _PAGE:
                return
            last = (rows[-1][0], rows[-1][3])[-len(last) :]

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
            removed = connection.execute(
                f"SELECT seq, id FROM removed WHERE {HERE} AND seq > ? ORDER BY seq LIMIT ?", span
            ).fetchall()
        feed = [
            Change(seq, row[0], from_row(collection, row), place) for seq, place, *row in written
        ]
        if removed:
            feed += [Change(seq, id) for seq, id in removed]
            feed.sort(key=attrgetter("seq"))
        return feed[: max(limit, 0)]

    def index_marks(self, tenant: str, collection: str) -> tuple[str, ...]:
        with self._pool.read() as connection:
            row = connection.execute(
                f"SELECT mark, former FROM index_marks WHERE {HERE}", (tenant, collection)
            ).fetchone()
        return tuple(filter(None, row)) if row else ()

    def mark_index(self, tenant: str, collection: str, mark: str, *, former: str) -> None:
        with self._pool.write(durable=False, patience_s=_MARK_S) as connection:
            row = (tenant, collection, mark, former)
            connection.execute("REPLACE INTO index_marks VALUES (?, ?, ?, ?)", row)

    def attach(
        self,
        tenant: str,
        collection: str,
        kind: str,
        values: Mapping[str, bytes],
        *,
        seen: int | None = None,
    ) -> int:
        check_name("attachment kind", kind)
        last = _LAST_SEQ if seen is None else seen
        rows = ((kind, value, tenant, collection, id, last) for id, value in values.items())
        with self._pool.write() as connection:
            return connection.executemany(_ATTACH, rows).rowcount if values else 0

    def attachments(
        self, tenant: str, collection: str, kind: str, ids: Sequence[str]
    ) -> dict[str, bytes]:
        with self._pool.read() as connection:
            return dict(connection.execute(_ATTACHMENTS, (tenant, collection, kind, encode(ids))))

    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]:
        with self._pool.read() as connection:
            rows = connection.execute(
                f"SELECT kind, count(*) FROM attachments WHERE {HERE} GROUP BY kind ORDER BY kind",
                (tenant, collection),
            )
            return dict(rows)
