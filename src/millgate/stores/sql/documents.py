"""SqlDocuments: documents, chunks with what is attached to them, and the change feed.

A put compares each document with what the store holds, row by row, so that only what differs is written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from millgate.stores.chunk_rows import Row, from_row
from millgate.stores.sql.database import COLUMNS, HERE, LISTED, Reader, SqlPart, check_quota
from millgate.stores.sql.writer import CollectionWriter
from millgate.stores.validate import check_attachments, check_documents, check_name
from millgate.types import Attachment, Change, Chunk, Document, Size

# Seconds that saving an index waits for other writers; after that it is saved later. Chosen, not measured: saving is
# background work, so a writer must never wait long behind it.
MARK_S = 1.0
_CLEAR = 5_000  # chunks that go in one transaction when a collection is emptied, some 50 ms
_PAGE = 1000  # chunks a scan reads at a time, so that a slow reader holds no snapshot open
_LAST_SEQ = 2**63 - 1

_CHUNKS = f"SELECT {COLUMNS} FROM millgate.chunks WHERE {HERE} AND {LISTED}"
# one statement sees one moment: a removal is never read without what came before it
_CHANGES = f"""
SELECT * FROM (
  SELECT seq, place, {COLUMNS} FROM millgate.chunks WHERE {HERE} AND seq > ? ORDER BY seq LIMIT ?) written
UNION ALL SELECT * FROM (
  SELECT seq, CAST(NULL AS bigint), id, NULL, CAST(NULL AS bigint), NULL, NULL, NULL, NULL, NULL
  FROM millgate.removed WHERE {HERE} AND seq > ? ORDER BY seq LIMIT ?) gone
"""
# the chunks are locked, so that none of them changes its text between the look at it and the commit
_ALIVE = f"SELECT id FROM millgate.chunks WHERE {HERE} AND seq <= ? AND {LISTED} FOR SHARE"
_ATTACH = "ON CONFLICT (tenant, collection, id, kind) DO UPDATE SET value = excluded.value"


class SqlDocuments(SqlPart):
    """Documents in the tables `collections`, `documents`, `chunks`, `attachments` and `removed`."""

    _reads: Reader
    """Where what may be a little old is read."""

    def put(
        self, tenant: str, documents: Sequence[Document], *, attachments: Iterable[Attachment] = ()
    ) -> int:
        incoming = check_documents(tenant, documents)
        if not incoming:
            return 0
        beside = {(tenant, *a[:3]): a.value for a in check_attachments(attachments, incoming)}
        self._know(tenant)
        with self._pool.write(tenant) as link:
            changed = grown = 0
            for name in sorted(incoming):  # so that no two writers wait for each other
                writer = CollectionWriter(link, tenant, name)
                changed += writer.put(incoming[name])
                grown += writer.grown
            rows = [(*key, value) for key, value in beside.items()]
            link.insert("attachments", rows, on_conflict=_ATTACH)
            if grown > 0:
                check_quota(link, tenant, self._tenant_bytes)
        self._note_change(tenant, incoming, changed)
        return changed

    def _note_change(self, tenant: str, collections: Iterable[str], changed: int) -> None:
        """Hear that so many chunks of collections have changed."""

    def amend_chunks(
        self, tenant: str, collection: str, ids: Sequence[str], change: Callable[[Chunk], Chunk]
    ) -> int:
        with self._pool.write(tenant) as link:
            writer = CollectionWriter(link, tenant, collection)
            changed = writer.amend(ids, change)
            if writer.grown > 0:
                check_quota(link, tenant, self._tenant_bytes)
        self._note_change(tenant, [collection], changed)
        return changed

    def remove(
        self,
        tenant: str,
        collection: str,
        *,
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
    ) -> int:
        gone, left = 0, True
        while (
            left
        ):  # some documents at a time, so that others get their turn and the log stays small
            with self._pool.write(tenant) as link:
                writer = CollectionWriter(link, tenant, collection)
                if documents is None and chunks is None:
                    removed, left = writer.clear_some(_CLEAR)
                else:
                    removed, left = writer.remove_documents(documents or ()), False
                    removed += writer.remove_chunks(chunks or ())
            gone += removed
        self._note_change(tenant, [collection], gone)
        return gone

    def digests(
        self, tenant: str, collection: str, ids: Sequence[str] | None = None
    ) -> Mapping[str, str]:
        sql, values = (
            f"SELECT id, digest FROM millgate.documents WHERE {HERE}",
            [tenant, collection],
        )
        if ids is not None:
            sql, values = f"{sql} AND {LISTED}", [*values, self._pool.listed(ids)]
        return dict(self._pool.fetch(tenant, sql, values))

    def collections(self, tenant: str) -> Mapping[str, Size]:
        sql = (
            "SELECT collection, documents, chunks, chars FROM millgate.collections"
            " WHERE tenant = ? AND documents > 0 ORDER BY collection"
        )
        return {name: Size(*counts) for name, *counts in self._pool.fetch(tenant, sql, (tenant,))}

    def size(self, tenant: str, collection: str) -> Size:
        sql = f"SELECT documents, chunks, chars FROM millgate.collections WHERE {HERE}"
        rows = self._pool.fetch_first(tenant, sql, tenant, collection)
        return Size(*rows[0]) if rows else Size()

    def chunks(self, tenant: str, collection: str, ids: Sequence[str]) -> list[Chunk]:
        rows = self._chunk_rows(tenant, collection, ids) if ids else ()
        found = {row[0]: from_row(collection, row) for row in rows}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    def _chunk_rows(self, tenant: str, collection: str, ids: Sequence[str]) -> Iterable[Row]:
        """The rows of the chunks with these ids, in any order."""
        return self._reads.fetch(tenant, _CHUNKS, (tenant, collection, self._pool.listed(ids)))

    def scan(self, tenant: str, collection: str, *, document: str | None = None) -> Iterator[Chunk]:
        last: Row = (-1, -1)
        after, values = "(place, position) > (?, ?)", [tenant, collection]
        if document is not None:
            # without its place SQLite would read all that stands before it
            after = f"place = (SELECT place FROM millgate.documents WHERE {HERE} AND id = ?) AND position > ?"
            values, last = [*values, *values, document], (-1,)
        sql = (
            f"SELECT place, {COLUMNS} FROM millgate.chunks WHERE {HERE} AND {after}"
            f" ORDER BY place, position LIMIT {_PAGE}"
        )
        while True:
            rows = self._pool.fetch(tenant, sql, (*values, *last))
            for row in rows:
                yield from_row(collection, row[1:])
            if len(rows) < _PAGE:
                return
            last = (rows[-1][0], rows[-1][3])[-len(last) :]

    def head(self, tenant: str, collection: str) -> int:
        sql = f"SELECT seq FROM millgate.collections WHERE {HERE}"
        rows = self._reads.fetch(tenant, sql, (tenant, collection))
        return int(rows[0][0]) if rows else 0

    def changes(
        self, tenant: str, collection: str, after: int, limit: int = 10_000
    ) -> list[Change]:
        most = max(limit, 0)
        span = (tenant, collection, after, most)
        rows = self._reads.fetch(tenant, _CHANGES, span * 2)
        rows.sort(key=itemgetter(0))
        return [
            Change(seq, row[0])
            if place is None
            else Change(seq, row[0], from_row(collection, row), place)
            for seq, place, *row in rows[:most]
        ]

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
        if not values:
            return 0
        last = _LAST_SEQ if seen is None else seen
        with self._pool.write(tenant) as link:
            asked = (tenant, collection, last, link.listed(values))
            alive = link.execute(_ALIVE, asked).fetchall()
            rows = [(tenant, collection, id, kind, values[id]) for (id,) in alive]
            return link.insert("attachments", rows, on_conflict=_ATTACH)

    def attachments(
        self, tenant: str, collection: str, kind: str, ids: Sequence[str]
    ) -> dict[str, bytes]:
        if not ids:
            return {}
        sql = f"SELECT id, value FROM millgate.attachments WHERE {HERE} AND kind = ? AND {LISTED}"
        values = (tenant, collection, kind, self._pool.listed(ids))
        return dict(self._pool.fetch(tenant, sql, values, binary=True))

    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]:
        sql = f"SELECT kind, count(*) FROM millgate.attachments WHERE {HERE} GROUP BY kind ORDER BY kind"
        return dict(self._pool.fetch(tenant, sql, (tenant, collection)))
