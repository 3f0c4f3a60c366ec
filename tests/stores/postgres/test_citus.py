"""The SQL that distributes a store: every table of a tenant by tenant, together, and the wall up again."""

import re
from pathlib import Path

import psycopg
import pytest

from headgate.errors import StoreError
from headgate.stores.postgres import citus
from headgate.stores.postgres.citus import REFERENCE, distribute, distribute_sql, settings_sql
from headgate.stores.postgres.migrations import BY_TENANT, DIRECTORY
from headgate.stores.postgres.store import PostgresStore


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
    assert settings_sql('we"ird').startswith('ALTER DATABASE "we""ird" SET citus.')


def test_the_table_of_vectors_is_distributed_where_there_is_one():
    everything = frozenset((*BY_TENANT, *REFERENCE))
    lines = distribute_sql(done=everything, vectors=True)
    assert sum("headgate.posting_vectors" in line for line in lines) == 3
    assert distribute_sql(done=everything | {"posting_vectors"}, vectors=True) == []


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
