"""PostgresPostings: the postings of large collections, in blocks.

`postings` has one row a collection: the last change seen, sums over all chunks, and until when a process has leased the
work. `posting_lists` has one row a key (a term or a name) and block, and several while the block has parts. A chunk
that changes or goes loses its index record (the table `posting_drafts`) and its vector. Its postings stay, and a query
that meets them finds no record there. The lists of a full block that has lost all its chunks are deleted.

Keys are found by equality alone: of other operators PostgreSQL does not know that they leak nothing, and uses no index.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from millgate.protocols import BLOCK_BITS, KeyLists, PostingBlock, RecordRows, Totals
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.replicas import Replicas
from millgate.stores.postgres.rows import HERE, Link, as_array, insert_rows, refresh_statistics
from millgate.stores.postgres.vectors import PostgresVectors, insert_vectors

_LEASE_S = 120.0  # a large block takes ten seconds
_SPARSE = f"""
SELECT id, draft FROM millgate.posting_drafts, (
  SELECT block::bigint FROM millgate.posting_blocks WHERE {HERE} AND block < %s AND 2 * gone >= chunks
  ORDER BY gone::float8 / chunks DESC, block LIMIT 1) sparse
WHERE {HERE} AND place >= sparse.block << {BLOCK_BITS} AND place < (sparse.block + 1) << {BLOCK_BITS}
ORDER BY place LIMIT %s
"""
_ADDED = """
ON CONFLICT (tenant, collection, block)
DO UPDATE SET chunks = posting_blocks.chunks + excluded.chunks, gone = posting_blocks.gone + excluded.gone
"""
_EMPTIED = f"DELETE FROM millgate.posting_blocks WHERE {HERE} AND block < %s AND gone >= chunks RETURNING block"
_COUNTED = "ON CONFLICT (tenant, collection, term) DO UPDATE SET chunks = posting_terms.chunks + excluded.chunks"
_FOLLOWS = "seen = %s AND coalesce(totals::json ->> 'saves', '0') = %s"
_STATE = """
SELECT c.seq, p.seen, p.totals FROM millgate.collections c LEFT JOIN millgate.postings p
  ON p.tenant = c.tenant AND p.collection = c.collection
WHERE c.tenant = %s AND c.collection = %s
"""
# the rarest keys first, as many as the budget holds; the lists of a key become one row, in the order of its blocks
_LISTS = f"""
WITH counted AS (
  SELECT term, chunks, sum(chunks) OVER (ORDER BY chunks, term) AS together FROM millgate.posting_terms
  WHERE {HERE} AND term = ANY(%s::bigint[]) AND chunks > 0)
SELECT c.term, c.chunks, l.blocks, l.sizes, l.lists FROM counted c, LATERAL (
  SELECT string_agg(int4send(block), ''::bytea) AS blocks,
    string_agg(int4send(octet_length(list)), ''::bytea) AS sizes, string_agg(list, ''::bytea) AS lists
  FROM (SELECT block, list FROM millgate.posting_lists
    WHERE {HERE} AND term = c.term AND c.chunks BETWEEN %s AND %s AND (c.together <= %s OR c.together = c.chunks)
    ORDER BY block, part) one) l
"""
# many records in one row: a client reads it in half the time of many rows
_RECORDS = f"""
SELECT string_agg(int8send(place), ''::bytea), array_agg(id),
  string_agg(int4send(octet_length(draft)), ''::bytea), string_agg(draft, ''::bytea)
FROM (SELECT place, id, draft FROM millgate.posting_drafts WHERE {HERE} AND place = ANY(%s::bigint[]) ORDER BY place) one
"""
# two statements, since Citus takes no INSERT from what a DELETE returns
_JOIN = f"""
INSERT INTO millgate.posting_lists (tenant, collection, term, block, part, list)
SELECT tenant, collection, term, block, %s, string_agg(list, ''::bytea ORDER BY part) FROM millgate.posting_lists
WHERE {HERE} AND block = %s AND part > %s GROUP BY tenant, collection, term, block
ON CONFLICT DO NOTHING
"""
_JOINED = f"""
DELETE FROM millgate.posting_lists WHERE {HERE} AND block = %s AND part > %s AND part <> %s
"""


class PostgresPostings(PostgresVectors):
    """Postings in the tables `postings`, `posting_terms`, `posting_lists`, `posting_drafts` and `posting_vectors`."""

    _pool: Pool
    _replicas: Replicas

    @property
    def may_lag(self) -> bool:
        return bool(self.address.replicas)

    def posting_state(self, tenant: str, collection: str) -> tuple[Totals, int]:
        rows = self._pool.fetch_first(tenant, _STATE, tenant, collection)
        if not rows:
            return Totals(), 0
        ((head, seen, totals),) = rows
        if totals is None:
            return Totals(), head
        found: dict[str, Any] = orjson.loads(totals)
        for name in ("fields", "languages", "speakers", "lines", "parts"):
            if name in found:
                found[name] = tuple(found[name])
        return Totals(**found)._replace(seen=seen), head

    def lease_postings(self, tenant: str, collection: str, after: Totals) -> bool:
        """Whether this process may write the block that follows these totals; it has some seconds for it."""
        with self._pool.write(tenant) as connection:
            connection.execute(
                "INSERT INTO millgate.postings (tenant, collection) VALUES (%s, %s)"
                " ON CONFLICT DO NOTHING",
                (tenant, collection),
            )
            taken = connection.execute(
                f"UPDATE millgate.postings SET leased = now() + interval '{_LEASE_S} seconds'"
                f" WHERE {HERE} AND leased < now() AND {_FOLLOWS}",
                (tenant, collection, after.seen, str(after.saves)),
            )
            return taken.rowcount == 1

    def release_postings(self, tenant: str, collection: str) -> None:
        """Let another process write the next block."""
        with self._pool.write(tenant) as connection:
            sql = f"UPDATE millgate.postings SET leased = '-infinity' WHERE {HERE}"
            connection.execute(sql, (tenant, collection))

    def save_block(
        self, tenant: str, collection: str, block: PostingBlock, *, after: Totals
    ) -> bool:
        """Write a block that follows these totals; False if another process has gone on from there."""
        here = (tenant, collection)
        totals = orjson.dumps(block.totals._asdict()).decode()
        with self._pool.write(tenant, statement_s=_LEASE_S) as connection:
            went_on = connection.execute(
                "UPDATE millgate.postings SET seen = %s, totals = %s, leased = '-infinity'"
                f" WHERE {HERE} AND {_FOLLOWS}",
                (block.totals.seen, totals, *here, after.seen, str(after.saves)),
            )
            if not went_on.rowcount:
                return False
            went = connection.execute(
                f"DELETE FROM millgate.posting_drafts WHERE {HERE} AND id = ANY(%s) RETURNING place",
                (*here, list(block.gone)),
            ).fetchall()
            number, begin, part, join_above, join_into = block.placement
            first = (number << BLOCK_BITS) + begin
            records = [(*here, at, id, data) for at, (id, data) in enumerate(block.records, first)]
            insert_rows(connection, "posting_drafts", records)
            gone = [at for (at,) in went]
            if block.vectors is not None:
                kind = (*here, block.totals.vectors)
                insert_vectors(connection, *kind, block.vectors, first=first, gone=gone)
            lists = [(*here, key, number, part, data) for key, data in block.lists]
            insert_rows(connection, "posting_lists", lists)
            if join_above is not None:
                connection.execute(_JOIN, (join_into, *here, number, join_above))
                connection.execute(_JOINED, (*here, number, join_above, join_into))
            _count_gone(connection, here, block, gone)
            counted = [(*here, key, count) for key, count in sorted(block.keys.items()) if count]
            insert_rows(connection, "posting_terms", counted, on_conflict=_COUNTED)
        tables = ("posting_drafts", "posting_lists", "posting_terms")
        with self._pool.session() as connection:
            refresh_statistics(connection, block.totals.chunks, *tables)
        return True

    def sparse_records(
        self, tenant: str, collection: str, *, below: int, most: int
    ) -> Sequence[tuple[str, bytes]]:
        here = (tenant, collection)
        values = (*here, below, *here, most)
        return self._pool.fetch(tenant, _SPARSE, values, binary=True)

    def count_keys(self, tenant: str, collection: str, keys: Sequence[int]) -> Mapping[int, int]:
        sql = f"SELECT term, chunks FROM millgate.posting_terms WHERE {HERE} AND term = ANY(%s::bigint[])"
        values = (tenant, collection, as_array(keys))
        return dict(self._replicas.fetch(tenant, sql, values, binary=True))

    def key_lists(
        self,
        tenant: str,
        collection: str,
        keys: Sequence[int],
        *,
        budget: int,
        least: int = 1,
        most: int | None = None,
    ) -> Sequence[KeyLists]:
        here = (tenant, collection)
        bound = budget if most is None else most
        values = (*here, as_array(keys), *here, least, bound, budget)
        rows = self._replicas.fetch(tenant, _LISTS, values, binary=True)
        return [KeyLists(*row) for row in rows]

    def records_at(self, tenant: str, collection: str, doc_ids: Collection[int]) -> RecordRows:
        """Doc id, chunk id and record of some chunks, in order; removed chunks are left out."""
        if not doc_ids:
            return RecordRows()
        values = (tenant, collection, as_array(doc_ids))
        ((found, ids, sizes, records),) = self._replicas.fetch(
            tenant, _RECORDS, values, binary=True
        )
        return RecordRows(found, ids, sizes, records) if ids else RecordRows()

    def clear_postings(self, tenant: str, collection: str) -> None:
        """Delete the postings of a collection; they can be made again from its chunks."""
        self.clear_vectors(tenant, collection)
        with self._pool.write(tenant) as connection:
            for table in (
                "postings",
                "posting_terms",
                "posting_lists",
                "posting_blocks",
                "posting_drafts",
            ):
                connection.execute(
                    f"DELETE FROM millgate.{table} WHERE {HERE}", (tenant, collection)
                )

    def records_of(self, tenant: str, collection: str, ids: Sequence[str]) -> Sequence[bytes]:
        sql = f"SELECT draft FROM millgate.posting_drafts WHERE {HERE} AND id = ANY(%s)"
        values = (tenant, collection, list(ids))
        return [record for (record,) in self._pool.fetch(tenant, sql, values, binary=True)]


def _count_gone(
    connection: Link, here: tuple[str, str], block: PostingBlock, doc_ids: Sequence[int]
) -> None:
    """Count the chunks that came into a block and those that went from any, and delete blocks that are empty now."""
    gone = Counter(doc_id >> BLOCK_BITS for doc_id in doc_ids)
    came = {block.placement.block: len(block.records)} if block.records else {}
    rows = [(*here, number, came.get(number, 0), gone[number]) for number in {*gone, *came}]
    insert_rows(connection, "posting_blocks", sorted(rows), on_conflict=_ADDED)
    emptied = connection.execute(_EMPTIED, (*here, block.totals.blocks)).fetchall()
    if emptied:
        sql = f"DELETE FROM millgate.posting_lists WHERE {HERE} AND block = ANY(%s::integer[])"
        connection.execute(sql, (*here, as_array(number for (number,) in emptied)))
