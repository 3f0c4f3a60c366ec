"""PostgresPostings: the postings of large collections, in blocks that are written once.

`postings` has one row a collection: the last change seen, the number of blocks, sums over all chunks, and until when a
process has leased the work. `posting_lists` has one row a term and block. The place of a chunk is its block's number and its own in it. A chunk that changes or goes loses its draft; its
postings stay in the old block, and whoever meets them finds no draft there.

Terms are found by equality alone. Under row-level security PostgreSQL uses an index only for operators that it knows to leak
nothing, and those of full text and arrays are not among them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from headgate.protocols import BLOCK_BITS, Block, Totals
from headgate.stores.postgres.connection import Pool
from headgate.stores.postgres.replicas import Replicas
from headgate.stores.postgres.rows import HERE, insert_rows, refresh_statistics

_LEASE = "30 seconds"  # a block takes one or two
_COUNTED = "ON CONFLICT (tenant, collection, term) DO UPDATE SET chunks = posting_terms.chunks + excluded.chunks"


class PostgresPostings:
    """Postings in the tables `postings`, `posting_terms`, `posting_lists` and `posting_drafts`."""

    _pool: Pool
    _replicas: Replicas

    def posting_totals(self, tenant: str, collection: str) -> Totals:
        sql = f"SELECT seen, totals FROM headgate.postings WHERE {HERE}"
        with self._pool.read(tenant) as connection:
            row = connection.execute(sql, (tenant, collection)).fetchone()
        if row is None:
            return Totals()
        found: dict[str, Any] = orjson.loads(row[1])
        for name in ("fields", "languages", "speakers"):
            if name in found:
                found[name] = tuple(found[name])
        return Totals(**found)._replace(seen=row[0])

    def lease_postings(self, tenant: str, collection: str) -> bool:
        """Whether this process may write the next block; it has some seconds for it."""
        with self._pool.write(tenant) as connection:
            connection.execute(
                "INSERT INTO headgate.postings (tenant, collection) VALUES (%s, %s)"
                " ON CONFLICT DO NOTHING",
                (tenant, collection),
            )
            taken = connection.execute(
                f"UPDATE headgate.postings SET leased = now() + interval '{_LEASE}'"
                f" WHERE {HERE} AND leased < now()",
                (tenant, collection),
            )
            return taken.rowcount == 1

    def save_block(self, tenant: str, collection: str, block: Block, *, after: int) -> bool:
        """Write a block that follows the change `after`; False where another process has gone on from there."""
        here = (tenant, collection)
        totals = orjson.dumps(block.totals._asdict()).decode()
        with self._pool.write(tenant) as connection:
            row = connection.execute(
                "UPDATE headgate.postings SET seen = %s, totals = %s, blocks = blocks + 1, leased = '-infinity'"
                f" WHERE {HERE} AND seen = %s RETURNING blocks - 1",
                (block.totals.seen, totals, *here, after),
            ).fetchone()
            if row is None:
                return False
            (number,) = row
            connection.execute(
                f"DELETE FROM headgate.posting_drafts WHERE {HERE} AND id = ANY(%s)",
                (*here, list(block.gone)),
            )
            first = number << BLOCK_BITS
            drafts = [(*here, at, id, draft) for at, (id, draft) in enumerate(block.drafts, first)]
            insert_rows(connection, "posting_drafts", drafts)
            lists = [(*here, term, number, data) for term, data in block.lists]
            insert_rows(connection, "posting_lists", lists)
            counted = [(*here, term, count) for term, count in sorted(block.terms.items()) if count]
            insert_rows(connection, "posting_terms", counted, on_conflict=_COUNTED)
        tables = ("posting_drafts", "posting_lists", "posting_terms")
        with self._pool.session() as connection:
            refresh_statistics(connection, block.totals.chunks, *tables)
        return True

    def term_totals(self, tenant: str, collection: str, terms: Sequence[int]) -> Mapping[int, int]:
        sql = f"SELECT term, chunks FROM headgate.posting_terms WHERE {HERE} AND term = ANY(%s)"
        with self._replicas.read(tenant) as connection:
            found = connection.execute(sql, (tenant, collection, list(terms)), binary=True)
            return dict(found.fetchall())

    def term_lists(
        self, tenant: str, collection: str, terms: Sequence[int]
    ) -> Sequence[tuple[int, int, bytes]]:
        sql = f"SELECT term, block, list FROM headgate.posting_lists WHERE {HERE} AND term = ANY(%s)"  # fmt: skip
        with self._replicas.read(tenant) as connection:
            found = connection.execute(sql, (tenant, collection, list(terms)), binary=True)
            return found.fetchall()

    def drafts_at(
        self, tenant: str, collection: str, places: Sequence[int]
    ) -> Sequence[tuple[str, bytes]]:
        """The drafts at these places, in order; those that went meanwhile are left out."""
        sql = (
            f"SELECT id, draft FROM headgate.posting_drafts WHERE {HERE}"
            " AND place = ANY(%s::bigint[]) ORDER BY place"
        )
        with self._replicas.read(tenant) as connection:
            found = connection.execute(sql, (tenant, collection, list(places)), binary=True)
            return found.fetchall()

    def clear_postings(self, tenant: str, collection: str) -> None:
        """Throw the postings of a collection away; they are made again from its chunks."""
        with self._pool.write(tenant) as connection:
            for table in ("postings", "posting_terms", "posting_lists", "posting_drafts"):
                connection.execute(
                    f"DELETE FROM headgate.{table} WHERE {HERE}", (tenant, collection)
                )

    def drafts_of(self, tenant: str, collection: str, ids: Sequence[str]) -> Sequence[bytes]:
        sql = f"SELECT draft FROM headgate.posting_drafts WHERE {HERE} AND id = ANY(%s)"
        with self._pool.read(tenant) as connection:
            found = connection.execute(sql, (tenant, collection, list(ids)), binary=True)
            return [draft for (draft,) in found.fetchall()]
