"""SqliteAttachments: fingerprints and embeddings beside their chunks in the SQLite store."""

from collections.abc import Mapping, Sequence

from headgate.stores.codec import encode
from headgate.stores.sqlite.connection import Pool
from headgate.stores.sqlite.rows import HERE, LISTED
from headgate.stores.validate import check_name

_ATTACH = """
REPLACE INTO attachments SELECT tenant, collection, id, ?, ? FROM chunks
WHERE tenant = ? AND collection = ? AND id = ? AND seq <= ?
"""
_READ = f"SELECT id, value FROM attachments WHERE {HERE} AND kind = ? AND id {LISTED}"
_LAST_SEQ = 2**63 - 1


class SqliteAttachments:
    """Bytes by chunk and kind. A chunk that is gone, or newer than `seen`, gets none."""

    _pool: Pool

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
            return dict(connection.execute(_READ, (tenant, collection, kind, encode(ids))))

    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]:
        with self._pool.read() as connection:
            rows = connection.execute(
                f"SELECT kind, count(*) FROM attachments WHERE {HERE} GROUP BY kind ORDER BY kind",
                (tenant, collection),
            )
            return dict(rows)
