"""The SQL that distributes a store: every table of a tenant by tenant, together, and the wall up again."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from headgate.errors import StoreError
from headgate.stores.postgres import citus
from headgate.stores.postgres.citus import REFERENCE, distribute, distribute_sql
from headgate.stores.postgres.migrations import BY_TENANT, DIRECTORY
from headgate.stores.postgres.rows import insert_rows
from headgate.stores.postgres.store import PostgresStore
from headgate.stores.postgres.vectors import _GRAPH
from headgate.types import Edge


def test_every_table_is_distributed_by_tenant_beside_the_others_or_copied_everywhere():
    lines = distribute_sql()
    by_tenant = [line for line in lines if "create_distributed_table" in line]
    assert len(by_tenant) == len(BY_TENANT)
    assert all("'tenant'" in line for line in by_tenant)
    assert (
        sum("colocate_with => 'headgate.collections'" in line for line in by_tenant)
        == len(BY_TENANT) - 1
    )
    assert {re.search(r"headgate\.(\w+)", line)[1] for line in lines if "reference" in line} == set(
        REFERENCE
    )


def test_policies_are_off_while_rows_move_and_on_again_afterwards():
    lines = distribute_sql()
    moves = [n for n, line in enumerate(lines) if "create_" in line]
    for table in (*BY_TENANT, *DIRECTORY):
        off = lines.index(
            f"ALTER TABLE headgate.{table} NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY"
        )
        on = lines.index(
            f"ALTER TABLE headgate.{table} FORCE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY"
        )
        assert off < min(moves) <= max(moves) < on


def test_tables_that_are_distributed_already_are_left_alone():
    everything = frozenset((*BY_TENANT, *REFERENCE))
    assert distribute_sql(done=everything) == []
    (move,) = [line for line in distribute_sql(done=everything - {"traces"}) if "create_" in line]
    assert "headgate.traces" in move


def test_the_table_of_vectors_is_distributed_if_there_is_one():
    everything = frozenset((*BY_TENANT, *REFERENCE))
    lines = distribute_sql(done=everything, vectors=True)
    assert sum("headgate.posting_vectors" in line for line in lines) == 4
    assert distribute_sql(done=everything | {"posting_vectors"}, vectors=True) == []


def test_what_was_moved_is_deleted_where_it_came_from_once_the_policies_are_back():
    *before, last = (
        n for n, line in enumerate(distribute_sql()) if not line.startswith("SELECT truncate")
    )
    gone = distribute_sql()[last + 1 :]
    assert before == list(range(last))
    assert {re.search(r"headgate\.(\w+)", line)[1] for line in gone} == {*BY_TENANT, *REFERENCE}


def test_each_shard_is_on_one_worker_since_no_others_can_be_locked():
    lines = distribute_sql()
    made = next(n for n, line in enumerate(lines) if "create_distributed" in line)
    assert lines.index("SET LOCAL citus.shard_replication_factor TO 1") < made


def test_a_server_without_citus_is_told_what_to_do(postgres_url):
    store = PostgresStore(postgres_url)
    with store.session() as connection, pytest.raises(StoreError, match="CREATE EXTENSION citus"):
        distribute(connection, store.address)
    store.close()


def test_the_statements_that_plain_postgres_knows_are_valid(postgres, postgres_url):
    PostgresStore(postgres_url).close()
    with psycopg.connect(postgres.url) as connection:
        for line in distribute_sql():
            if line.startswith("ALTER TABLE"):
                connection.execute(line)
        connection.rollback()


def test_shards_can_be_moved_while_they_are_in_use(postgres, postgres_url):
    """Citus moves them by logical replication, which takes no table that is not logged."""
    PostgresStore(postgres_url).close()
    unlogged = "SELECT relname FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r'"
    with psycopg.connect(postgres.url) as connection:
        for line in distribute_sql():
            if line.startswith("ALTER TABLE"):
                connection.execute(line)
        assert connection.execute(unlogged).fetchall() == []
        connection.rollback()


def test_no_rows_of_a_query_are_inserted_by_copy():
    """Citus copies what a plain INSERT ... SELECT gives into its shards, and PostgreSQL takes no COPY there."""
    for file in Path(citus.__file__).parent.glob("*.py"):
        text = " ".join(file.read_text().replace('"', " ").split())
        for found in re.finditer(
            r"INSERT INTO headgate\.(\w+)(?: AS \w+)? ?(?:\([\w, ]*\) )?SELECT", text
        ):
            if found[1] not in REFERENCE:
                assert "ON CONFLICT" in text[found.end() :][:600], (file.name, found[0])


def test_rows_are_counted_as_they_come_back(postgres_url):
    """Citus says of INSERT ... SELECT ... ON CONFLICT how many rows were selected, written or not."""
    asked = []

    class Cursor(psycopg.Cursor):
        def execute(self, query, *values, **options):
            asked.append(query)
            return super().execute(query, *values, **options)

    store = PostgresStore(postgres_url)
    store.link("t", [Edge(f"a{n}", "is", "b") for n in range(60)])
    with store._pool.write("t") as connection:
        connection.cursor_factory = Cursor
        rows = [("t", f"a{n}", "is", "b", 1.0, "", f"a{n}", "b") for n in range(30, 90)]
        assert insert_rows(connection, "edges", rows, on_conflict="ON CONFLICT DO NOTHING") == 30
    store.close()
    (insert,) = [query for query in asked if "INSERT" in query]
    assert "RETURNING" in insert


def test_the_sizes_of_tables_are_those_of_their_shards(postgres, postgres_url):
    store = PostgresStore(postgres_url)
    before = store.tables()
    with psycopg.connect(postgres.admin, dbname="headgate", autocommit=True) as admin:
        admin.execute("""
            CREATE TABLE pg_dist_partition AS SELECT 'headgate.chunks'::regclass AS logicalrelid;
            GRANT SELECT ON pg_dist_partition TO gate;
            CREATE FUNCTION citus_total_relation_size(regclass, fail_on_error boolean) RETURNS bigint
            LANGUAGE sql AS 'SELECT 10^9::bigint'""")
        after = store.tables()
        admin.execute("DROP TABLE pg_dist_partition; DROP FUNCTION citus_total_relation_size")
    store.close()
    assert after == before | {"chunks": before["chunks"] + 10**9}


def test_a_graph_that_is_being_made_is_seen_wherever_it_is_made(postgres_url):
    """On Citus the workers make it, and the progress that PostgreSQL reports is theirs."""
    store = PostgresStore(postgres_url)
    make = "CREATE INDEX CONCURRENTLY vectors_0 ON headgate.removed (seq)"

    def look():
        with store.session() as connection:
            return connection.execute(_GRAPH, ("vectors_0", "vectors_0")).fetchone()

    def build():
        with store.session() as connection:
            connection.execute(make)

    with ThreadPoolExecutor() as pool, store.session() as other:
        other.execute("BEGIN; LOCK TABLE headgate.removed IN ROW EXCLUSIVE MODE")  # it waits for us
        made = pool.submit(build)
        while (found := look()) is None:
            assert not made.done()
        other.execute("COMMIT")
        made.result()
        assert (found, look()) == ((False, True), (True, False))
        other.execute("DROP INDEX headgate.vectors_0")
    store.close()
