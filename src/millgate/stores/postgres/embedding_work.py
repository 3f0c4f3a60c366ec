"""PostgresEmbeddingWork: the embeddings that chunks lack, in parts that many workers share.

A part is a stretch of the change feed, one row in `embedding_work`. A worker locks a row that no other has locked,
computes, writes the embeddings and deletes the row, all in one transaction. Readers and writers of documents do not
wait. When a worker dies, the server drops its lock.
"""

from collections.abc import Callable, Mapping, Sequence

from millgate.stores.chunk_rows import from_row
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.documents import attach_rows
from millgate.stores.postgres.rows import COLUMNS, HERE
from millgate.stores.validate import check_name
from millgate.types import Chunk

PART = 256  # changes of the feed, so at most as many chunks
_LACKING = f"""{HERE} AND NOT EXISTS (SELECT 1 FROM millgate.attachments a WHERE a.tenant = c.tenant
  AND a.collection = c.collection AND a.id = c.id AND a.kind = %s)"""
_OFFER = f"""
INSERT INTO millgate.embedding_work (tenant, collection, kind, part, chunks)
SELECT c.tenant, c.collection, %s, c.seq / {PART}, count(*) FROM millgate.chunks c
WHERE {_LACKING}
GROUP BY 1, 2, 4 ON CONFLICT DO NOTHING
"""
_CLAIM = f"""
SELECT part FROM millgate.embedding_work WHERE {HERE} AND kind = %s
ORDER BY part LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_READ = f"SELECT seq, {COLUMNS} FROM millgate.chunks c WHERE {_LACKING} AND seq >= %s AND seq < %s ORDER BY seq"
_DONE = f"DELETE FROM millgate.embedding_work WHERE {HERE} AND kind = %s AND part = %s"
_LEFT = f"SELECT coalesce(sum(chunks), 0) FROM millgate.embedding_work WHERE {HERE} AND kind = %s"

Compute = Callable[[Sequence[Chunk]], Mapping[str, bytes]]


class PostgresEmbeddingWork:
    """Parts of work in the table `embedding_work`."""

    _pool: Pool

    def offer_embeddings(self, tenant: str, collection: str, kind: str) -> int:
        """Make parts of all chunks that lack an embedding of this kind; how many chunks are in parts now."""
        check_name("attachment kind", kind)
        with self._pool.write(tenant) as connection:
            connection.execute(_OFFER, (kind, tenant, collection, kind))
        return self.embeddings_left(tenant, collection, kind)

    def embeddings_left(self, tenant: str, collection: str, kind: str) -> int:
        """How many chunks are in parts that are not done, also in those that other workers hold."""
        ((left,),) = self._pool.fetch(tenant, _LEFT, (tenant, collection, kind))
        return int(left)

    def embed_part(self, tenant: str, collection: str, kind: str, compute: Compute) -> int | None:
        """Do a part that no other worker does; how many embeddings were made, None if no part is free.

        The embedding of a chunk that changes at the same time is thrown away: the chunk is offered again.
        """
        here = (tenant, collection, kind)
        with self._pool.write(tenant) as connection:
            row = connection.execute(_CLAIM, here).fetchone()
            if row is None:
                return None
            (part,) = row
            span = (part * PART, (part + 1) * PART)
            lacking = connection.execute(_READ, (*here, *span)).fetchall()
            if lacking:
                # whatever is written from now on has a number beyond the last one that was read
                values = compute([from_row(collection, row) for _, *row in lacking])
                attach_rows(connection, *here, values, seen=lacking[-1][0])
            connection.execute(_DONE, (*here, part))
            return len(lacking)
