"""PostgresDocuments: documents, chunks with what is attached to them, and the change feed of the PostgreSQL store.

A put compares each document with what the store holds, row by row, so that only what differs is written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from millgate.stores.chunk_rows import Row, from_row
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.replicas import Replicas
from millgate.stores.postgres.rows import (
    COLUMNS,
    HERE,
    Link,
    as_text_array,
    check_quota,
    insert_rows,
    refresh_statistics,
)
from millgate.stores.postgres.shared import KnownTenants
from millgate.stores.postgres.writer import CollectionWriter
from millgate.stores.validate import check_attachments, check_documents, check_name
from millgate.types import Attachment, Change, Chunk, Document, Size

# Seconds that saving an index waits for other writers; after that it is saved later. Chosen, not measured: saving is
# background work, so a writer must never wait long behind it.
_MARK_S = 1.0
# Marks kept of a collection. Each gateway's index has two, so five hundred gateways may share a collection: chosen,
# not measured, to be more than a deployment has.
_MARKS = 1_000
# Chunks written at once from which the planner's statistics are renewed, so that it sees a large import at once.
# Chosen, not measured.
_BULK = 500
# Chunks deleted in one transaction when a collection is emptied: as in SQLite, where they take some 50 ms.
_CLEAR = 5_000
_PAGE = 1000  # chunks a scan reads at a time, so that a slow reader holds no snapshot open

# one statement sees one moment: a removal is never read without what came before it
_CHANGES = f"""
(SELECT seq, place, {COLUMNS} FROM millgate.chunks WHERE {HERE} AND seq > %s ORDER BY seq LIMIT %s)
UNION ALL
(SELECT seq, NULL, id, NULL, NULL, NULL, NULL, NULL, NULL, NULL
 FROM millgate.removed WHERE {HERE} AND seq > %s ORDER BY seq LIMIT %s)
ORDER BY seq LIMIT %s
"""
# the chunks are locked, so that none of them changes its text between the look at it and the commit
_ALIVE = f"SELECT id FROM millgate.chunks WHERE {HERE} AND seq <= %s AND id = ANY(%s) FOR SHARE"
_ATTACH = "ON CONFLICT (tenant, collection, id, kind) DO UPDATE SET value = excluded.value"
_LAST_SEQ = 2**63 - 1


def attach_rows(
    connection: Link,
    tenant: str,
    collection: str,
    kind: str,
    values: Mapping[str, bytes],
    *,
    seen: int,
) -> int:
    """Attach bytes to those of the chunks that have not changed since `seen`, in a transaction; how many got them."""
    alive = connection.execute(_ALIVE, (tenant, collection, seen, list(values))).fetchall()
    rows = [(tenant, collection, id, kind, values[id]) for (id,) in alive]
    return insert_rows(connection, "attachments", rows, on_conflict=_ATTACH)


class PostgresDocuments:
    """Documents in the tables `collections`, `documents`, `chunks`, `attachments` and `removed`."""

    _pool: Pool
    _replicas: Replicas
    _tenants: KnownTenants
    _tenant_bytes: int | None

    def put(
        self, tenant: str, documents: Sequence[Document], *, attachments: Iterable[Attachment] = ()
    ) -> int:
        incoming = check_documents(tenant, documents)
        if not incoming:
            return 0
        beside = check_attachments(attachments, incoming)
        self._tenants.add(tenant)
        with self._pool.write(tenant) as connection:
            changed = grown = 0
            for name in sorted(incoming):  # so that no two writers wait for each other
                writer = CollectionWriter(connection, tenant, name)
                changed += writer.put(incoming[name])
                grown += writer.grown
            rows = {(tenant, *a[:3]): a.value for a in beside}
            lines = [(*key, value) for key, value in rows.items()]
            insert_rows(connection, "attachments", lines, on_conflict=_ATTACH)
            if grown > 0:
                check_quota(connection, tenant, self._tenant_bytes)
        self._replicas.note_write()
        if changed >= _BULK:
            chunks = max(self.size(tenant, name).chunks for name in incoming)
            with self._pool.session() as connection:
                refresh_statistics(connection, chunks, "chunks", "documents", "attachments")
        return changed

    def amend_chunks(
        self, tenant: str, collection: str, ids: Sequence[str], change: Callable[[Chunk], Chunk]
    ) -> int:
        with self._pool.write(tenant) as connection:
            writer = CollectionWriter(connection, tenant, collection)
            changed = writer.amend(ids, change)
            if writer.grown > 0:
                check_quota(connection, tenant, self._tenant_bytes)
        self._replicas.note_write()
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
            gone = self._clear(tenant, collection)
        else:
            with self._pool.write(tenant) as connection:
                writer = CollectionWriter(connection, tenant, collection)
                gone = writer.remove_documents(documents or ()) + writer.remove_chunks(chunks or ())
        self._replicas.note_write()
        return gone

    def _clear(self, tenant: str, collection: str) -> int:
        """Empty a collection, some documents at a time, so that other writers get their turn."""
        gone = 0
        while True:
            with self._pool.write(tenant) as connection:
                writer = CollectionWriter(connection, tenant, collection)
                removed, left = writer.clear_some(_CLEAR)
            gone += removed
            if not left:
                return gone

    def digests(
        self, tenant: str, collection: str, ids: Sequence[str] | None = None
    ) -> Mapping[str, str]:
        sql = f"SELECT id, digest FROM millgate.documents WHERE {HERE}"
        values: list[object] = [tenant, collection]
        if ids is not None:
            sql, values = f"{sql} AND id = ANY(%s)", [*values, list(ids)]
        return dict(self._pool.fetch(tenant, sql, values))

    def collections(self, tenant: str) -> Mapping[str, Size]:
        rows = self._pool.fetch(
            tenant,
            "SELECT collection, documents, chunks, chars FROM millgate.collections"
            " WHERE tenant = %s AND documents > 0 ORDER BY collection",
            (tenant,),
        )
        return {name: Size(*counts) for name, *counts in rows}

    def size(self, tenant: str, collection: str) -> Size:
        sql = f"SELECT documents, chunks, chars FROM millgate.collections WHERE {HERE}"
        rows = self._pool.fetch_first(tenant, sql, tenant, collection)
        return Size(*rows[0]) if rows else Size()

    def chunks(self, tenant: str, collection: str, ids: Sequence[str]) -> list[Chunk]:
        if not ids:
            return []
        sql = f"SELECT {COLUMNS} FROM millgate.chunks WHERE {HERE} AND id = ANY(%s::text[])"
        rows = self._replicas.fetch(tenant, sql, (tenant, collection, as_text_array(ids)))
        found = {row[0]: from_row(collection, row) for row in rows}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    def scan(self, tenant: str, collection: str, *, document: str | None = None) -> Iterator[Chunk]:
        only, values = "", [tenant, collection]
        if document is not None:
            only = f" AND place = (SELECT place FROM millgate.documents WHERE {HERE} AND id = %s)"
            values += [tenant, collection, document]
        sql = (
            f"SELECT place, {COLUMNS} FROM millgate.chunks WHERE {HERE}{only}"
            f" AND (place, position) > (%s, %s) ORDER BY place, position LIMIT {_PAGE}"
        )
        last: Row = (-1, -1)
        while True:
            rows = self._pool.fetch(tenant, sql, (*values, *last))
            for row in rows:
                yield from_row(collection, row[1:])
            if len(rows) < _PAGE:
                return
            last = (rows[-1][0], rows[-1][3])

    def head(self, tenant: str, collection: str) -> int:
        sql = f"SELECT seq FROM millgate.collections WHERE {HERE}"
        rows = self._replicas.fetch(tenant, sql, (tenant, collection))
        return int(rows[0][0]) if rows else 0

    def changes(
        self, tenant: str, collection: str, after: int, limit: int = 10_000
    ) -> list[Change]:
        most = max(limit, 0)
        span = (tenant, collection, after, most)
        rows = self._replicas.fetch(tenant, _CHANGES, (*span, *span, most))
        return [
            Change(seq, row[0])
            if place is None
            else Change(seq, row[0], from_row(collection, row), place)
            for seq, place, *row in rows
        ]

    def index_marks(self, tenant: str, collection: str) -> tuple[str, ...]:
        sql = f"SELECT mark FROM millgate.index_marks WHERE {HERE} ORDER BY created DESC"
        return tuple(mark for (mark,) in self._pool.fetch(tenant, sql, (tenant, collection)))

    def mark_index(self, tenant: str, collection: str, mark: str, *, former: str) -> None:
        """Every gateway has an index of its own: each keeps its last two marks, and the oldest go beyond a thousand."""
        here = (tenant, collection)
        check_name("index mark", mark)
        with self._pool.write(tenant, durable=False, patience_s=_MARK_S) as connection:
            connection.execute(
                f"DELETE FROM millgate.index_marks WHERE {HERE} AND mark IN"
                f" (SELECT former FROM millgate.index_marks WHERE {HERE} AND mark = %s)",
                (*here, *here, former),
            )
            connection.execute(
                "INSERT INTO millgate.index_marks (tenant, collection, mark, former)"
                " VALUES (%s, %s, %s, %s) ON CONFLICT (tenant, collection, mark)"
                " DO UPDATE SET former = excluded.former, created = excluded.created",
                (*here, mark, former),
            )
            connection.execute(
                f"DELETE FROM millgate.index_marks WHERE {HERE} AND mark IN (SELECT mark FROM"
                f" millgate.index_marks WHERE {HERE} ORDER BY created DESC OFFSET {_MARKS})",
                here * 2,
            )

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
        with self._pool.write(tenant) as connection:
            return attach_rows(connection, tenant, collection, kind, values, seen=last)

    def attachments(
        self, tenant: str, collection: str, kind: str, ids: Sequence[str]
    ) -> dict[str, bytes]:
        if not ids:
            return {}
        sql = f"SELECT id, value FROM millgate.attachments WHERE {HERE} AND kind = %s AND id = ANY(%s::text[])"
        values = (tenant, collection, kind, as_text_array(ids))
        return dict(self._pool.fetch(tenant, sql, values, binary=True))

    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]:
        sql = f"SELECT kind, count(*) FROM millgate.attachments WHERE {HERE} GROUP BY kind ORDER BY kind"
        return dict(self._pool.fetch(tenant, sql, (tenant, collection)))
