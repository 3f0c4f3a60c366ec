"""A retriever over PostgreSQL's full-text search: the database finds candidates, Millgate ranks and packs them.

The table is yours, however many rows it has; only its name and columns stand here:

    CREATE TABLE passages (tenant text, id text, title text, body text, search tsvector GENERATED ALWAYS AS
      (setweight(to_tsvector('english', title), 'A') || setweight(to_tsvector('english', body), 'B')) STORED);
    CREATE INDEX ON passages USING gin (search);

Run it with the address of a database that has such a table:

    python docs/examples/postgres_retriever.py postgresql://me@localhost/library "how are ferries repaired?"
"""

import sys
from collections.abc import Sequence

import psycopg

from millgate import Chunk, Millgate

# any word of the question: the ranking of Millgate decides how much each of them says
FIND = """
SELECT id, title, body FROM passages,
  to_tsquery('english', array_to_string(tsvector_to_array(to_tsvector('english', %s)), ' | ')) AS question
WHERE tenant = %s AND search @@ question ORDER BY ts_rank(search, question) DESC, id LIMIT %s
"""


class PostgresRetriever:
    """The passages of one table that share a word with the query."""

    def __init__(self, address: str, *, limit: int = 300) -> None:
        self._address, self._limit = address, limit

    def retrieve(self, tenant: str, collection: str, query: str) -> Sequence[Chunk]:
        """The best by the database's own rank; a service would keep its connections in a pool."""
        with psycopg.connect(self._address) as connection:
            rows = connection.execute(FIND, (query, tenant, self._limit)).fetchall()
        return [
            Chunk(id, body, document=id, title=title, collection=collection)
            for id, title, body in rows
        ]


if __name__ == "__main__":
    with Millgate.open(":memory:", retriever=PostgresRetriever(sys.argv[1])) as gate:
        sys.stdout.write(f"{gate.context(sys.argv[2], budget=1000)}\n")
