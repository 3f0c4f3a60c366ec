"""PostgresVectors: embeddings of large collections, searched by pgvector if the database has it.

The neighbor graph (HNSW) of a collection is an index over its rows alone, so that no search can meet a row of another
tenant. Without a graph a small collection is searched row by row, and a large one not at all.
"""

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import orjson

from millgate.errors import LimitError, StoreError
from millgate.stores.postgres.address import Address
from millgate.stores.postgres.connection import Pool, quote
from millgate.stores.postgres.migrations import has_vectors, owns_tables, vector_schema
from millgate.stores.postgres.rows import HERE, Link, as_array

_FEW = 20_000  # vectors that are compared one by one: some 10 ms of the server's time
_WIDEST = 4_000  # dimensions that an index of half floats takes
_LOOK_S = 60.0  # for which it is believed whether there is a table or a graph

Halves = npt.NDArray[np.float16]

# whether it is ready, and whether a process is making it, here or on the workers of Citus
_GRAPH = """
SELECT indisvalid, EXISTS (SELECT 1 FROM pg_stat_activity
  WHERE state = 'active' AND starts_with(query, 'CREATE INDEX CONCURRENTLY ' || %s))
FROM pg_index WHERE indexrelid = to_regclass('millgate.' || %s)
"""


def insert_vectors(
    connection: Link,
    tenant: str,
    collection: str,
    kind: str,
    rows: Halves,
    *,
    first: int,
    gone: Sequence[int],
) -> None:
    """Write the embeddings of a block whose first place is `first`, and delete those of chunks that went."""
    here = (tenant, collection)
    schema = vector_schema(connection)
    connection.execute(
        f"DELETE FROM millgate.posting_vectors WHERE {HERE} AND place = ANY(%s::bigint[])",
        (*here, as_array(gone)),
    )
    connection.execute(
        "INSERT INTO millgate.posting_vectors (tenant, collection, kind, place, embedding)"
        f" SELECT %s, %s, %s, place, embedding::{schema}.halfvec"
        " FROM unnest(%s::bigint[], %s::text[]) AS one (place, embedding) ON CONFLICT DO NOTHING",
        (*here, kind, as_array(range(first, first + len(rows))), [_as_text(row) for row in rows]),
    )


class PostgresVectors:
    """Embeddings in the table `posting_vectors`."""

    _pool: Pool
    address: Address
    _looked: dict[str, tuple[float, str]]

    def can_search_vectors(self) -> bool:
        """Whether the database has pgvector, and the table for it."""
        return bool(self._schema())

    def nearest_doc_ids(
        self, tenant: str, collection: str, kind: str, vector: Halves, k: int, *, chunks: int
    ) -> Sequence[tuple[int, float]] | None:
        schema, graph = self._schema(), self._graph(tenant, collection, kind)
        if not schema or (not graph and chunks > _FEW):
            return None
        distance = f"embedding::{schema}.halfvec({len(vector)}) OPERATOR({schema}.<#>) %s::{schema}.halfvec({len(vector)})"
        sql = (
            f"SELECT place, -({distance}) FROM millgate.posting_vectors"
            f" WHERE {HERE} AND kind = %s ORDER BY {distance} LIMIT %s"
        )
        text = _as_text(vector)
        width = max(40, min(2 * k, 1000))
        return self._pool.fetch(
            tenant,
            sql,
            (text, tenant, collection, kind, text, k),
            settings=[f"hnsw.ef_search = {width}"],
        )

    def build_graph(self, tenant: str, collection: str, kind: str) -> bool:
        """Make the neighbor graph of a collection's vectors, while others read and write; whether it was made now."""
        name, dimension = _graph_name(tenant, collection, kind), int(kind.rpartition("/")[2])
        if dimension > _WIDEST:
            raise LimitError(
                f"an embedding of {dimension:,} dimensions cannot be indexed by pgvector; {_WIDEST:,} can",
                hint="choose a smaller embed.model, or shorten its vectors",
            )
        with self._pool.session() as connection:
            schema = _require_vectors(connection, self.address)
            self._require_rows(tenant, collection, kind)
            row = connection.execute(_GRAPH, (name, name)).fetchone()
            if row and any(row):
                return False
            if row:
                connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS millgate.{name}")
            values = [quote(connection, value) for value in (tenant, collection, kind)]
            connection.execute(
                f"CREATE INDEX CONCURRENTLY {name} ON millgate.posting_vectors USING hnsw"
                f" ((embedding::{schema}.halfvec({dimension})) {schema}.halfvec_ip_ops)"
                " WHERE tenant = {} AND collection = {} AND kind = {}".format(*values)
            )
        self._looked = {}
        return True

    def _require_rows(self, tenant: str, collection: str, kind: str) -> None:
        sql = f"SELECT 1 FROM millgate.posting_vectors WHERE {HERE} AND kind = %s LIMIT 1"
        if not self._pool.fetch(tenant, sql, (tenant, collection, kind)):
            raise StoreError(
                f"the postings of collection {collection!r} were made without {kind}",
                hint=f"run: millgate store reindex --collection {collection}, then this again",
            )

    def clear_vectors(self, tenant: str, collection: str) -> None:
        """Delete the vectors of a collection, and its graphs: made again they are made faster without."""
        if not self._schema():
            return
        kinds = self._pool.fetch(
            tenant,
            f"SELECT DISTINCT kind FROM millgate.posting_vectors WHERE {HERE}",
            (tenant, collection),
        )
        with self._pool.write(tenant) as connection:
            # another role than the owner leaves the graphs: then the rows are only slower to write
            for (kind,) in kinds if owns_tables(connection) else ():
                name = _graph_name(tenant, collection, kind)
                connection.execute(f"DROP INDEX IF EXISTS millgate.{name}")
            sql = f"DELETE FROM millgate.posting_vectors WHERE {HERE}"
            connection.execute(sql, (tenant, collection))
        self._looked = {}

    def _schema(self) -> str:
        """The schema of pgvector, quoted; empty if vectors cannot be searched."""
        return self._remember("", lambda connection: vector_schema(connection) if has_vectors(connection) else "")  # fmt: skip

    def _graph(self, tenant: str, collection: str, kind: str) -> str:
        """The name of a collection's graph; empty if there is none yet."""
        name = _graph_name(tenant, collection, kind)

        def look(connection: Link) -> str:
            row = connection.execute(_GRAPH, (name, name)).fetchone()
            return name if row and row[0] else ""

        return self._remember(name, look)

    def _remember(self, name: str, look: Callable[[Link], str]) -> str:
        """What was found under this name in the last seconds, or what is found now."""
        looked, found = self._looked.get(name, (float("-inf"), ""))
        if time.monotonic() - looked >= _LOOK_S:
            with self._pool.session(patience_s=self.address.timeout_s) as connection:
                found = look(connection)
            self._looked[name] = (time.monotonic(), found)
        return found


def _graph_name(tenant: str, collection: str, kind: str) -> str:
    whole = "\0".join((tenant, collection, kind)).encode()
    return f"vectors_{blake2b(whole, digest_size=16).hexdigest()}"


def _as_text(vector: Halves) -> str:
    """A vector as pgvector reads it."""
    return orjson.dumps(vector.astype(np.float32), option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _require_vectors(connection: Link, address: Address) -> str:
    schema = vector_schema(connection)
    if not schema:
        raise StoreError(
            f"the store {address} has no pgvector 0.7 or newer",
            hint="as superuser: CREATE EXTENSION vector; then run: millgate store migrate, and millgate store reindex",
        )
    if not has_vectors(connection):
        raise StoreError(
            f"the store {address} has pgvector and no table for vectors yet",
            hint="run: millgate store migrate, and millgate store reindex",
        )
    return schema
