"""The schema is made step by step, once, however many gateways start at once."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from millgate.errors import StoreError
from millgate.stores.postgres.address import parse_address
from millgate.stores.postgres.migrations import (
    BY_TENANT,
    DIRECTORY,
    LOCK,
    STEPS,
    migrate,
    pending,
    version,
)
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document


@pytest.fixture
def url(postgres):
    """A database without a store."""
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS fresh")
        connection.execute("CREATE DATABASE fresh OWNER gate")
    yield postgres.url.replace("/millgate", "/fresh")
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE fresh WITH (FORCE)")


def test_gateways_that_start_at_once_make_one_store(url):
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: PostgresStore(url), range(4)))
    assert len({store.id for store in stores}) == 1
    assert stores[0].secret("t") == stores[3].secret("t")
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT number FROM millgate.migrations ORDER BY number")
        assert [number for (number,) in rows] == list(range(1, len(STEPS) + 1))
    for store in stores:
        store.close()


def test_a_gateway_that_waited_for_another_one_finds_its_tables(url):
    address = parse_address(url)
    opened = []
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        waiting = threading.Thread(target=lambda: opened.append(PostgresStore(url)))
        waiting.start()
        sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while connection.execute(sql).fetchone() == (0,):
            time.sleep(0.02)
        migrate(connection, address)
    waiting.join()
    (store,) = opened
    assert store.put("t", [document("a", "x")]) == 1
    store.close()


def test_a_store_of_an_older_release_is_brought_up_to_date_and_keeps_its_rows(url):
    with PostgresStore(url)._pool.session() as connection:
        later = (*STEPS, "CREATE TABLE millgate.more (tenant text PRIMARY KEY)")
        store = PostgresStore(url)
        store.put("t", [document("a", "kept")])
        assert migrate(connection, store.address, steps=later) == 1
        assert migrate(connection, store.address, steps=later) == 0
        assert version(connection) == len(later)
        connection.close()
    with pytest.raises(StoreError, match=r"has version \d+; this release reads up to .*upgrade"):
        PostgresStore(url)
    assert [chunk.text for chunk in store.scan("t", "main")] == ["kept"]
    store.close()


def test_a_step_that_fails_leaves_the_store_as_it_was(url):
    store = PostgresStore(url)
    bad = (*STEPS, "CREATE TABLE millgate.more (x int)", "SELECT nonsense")
    with pytest.raises(StoreError, match="nonsense"), store._pool.session() as connection:
        migrate(connection, store.address, steps=bad)
    with store._pool.session() as connection:
        assert version(connection) == len(STEPS)
    store.close()


def test_a_gateway_that_may_not_migrate_says_what_to_run(url):
    with pytest.raises(StoreError, match="millgate store migrate"):
        PostgresStore(url, migrates=False)
    assert len(pending(0)) == len(STEPS) + 1
    assert pending(len(STEPS)) == []


def test_every_key_begins_with_the_tenant_and_no_table_needs_another_or_a_sequence():
    made = "".join(STEPS)
    for table in (*BY_TENANT, *DIRECTORY):
        body = re.search(
            rf"CREATE (?:UNLOGGED )?TABLE millgate\.{table} \((.*?)\n?\)(?: WITH.*?)?;", made, re.S
        )
        assert re.search(r"PRIMARY KEY \(tenant|tenant [^,]* PRIMARY KEY", body[1]), table
    assert not re.search(r"REFERENCES|SERIAL|IDENTITY|nextval", made, re.I)
