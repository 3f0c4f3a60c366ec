"""PostgresAttachments: fingerprints and embeddings beside their chunks in the PostgreSQL store."""

from collections.abc import Mapping, Sequence

from headgate.stores.postgres.connection import Pool
from headgate.stores.postgres.replicas import Replicas
from headgate.stores.postgres.rows import HERE, Link, as_text_array, insert_rows
from headgate.stores.validate import check_name

# the chunks are locked, so that none of them changes its text between the look at it and the commit
_ALIVE = f"SELECT id FROM headgate.chunks WHERE {HERE} AND seq <= %s AND id = ANY(%s) FOR SHARE"
ATTACH = "ON CONFLICT (tenant, collection, id, kind) DO UPDATE SET value = excluded.value"
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
    return insert_rows(connection, "attachments", rows, on_conflict=ATTACH)


class PostgresAttachments:
    """Bytes by chunk and kind. A chunk that is gone, or newer than `seen`, gets none."""

    _pool: Pool
    _replicas: Replicas

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
        sql = f"SELECT id, value FROM headgate.attachments WHERE {HERE} AND kind = %s AND id = ANY(%s::text[])"
        values = (tenant, collection, kind, as_text_array(ids))
        return dict(self._pool.fetch(tenant, sql, values, binary=True))

    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]:
        sql = f"SELECT kind, count(*) FROM headgate.attachments WHERE {HERE} GROUP BY kind ORDER BY kind"
        return dict(self._pool.fetch(tenant, sql, (tenant, collection)))
