"""A statement and its transaction in one round trip: values go in, rows come out, and what fails leaves nothing."""

import psycopg
import pytest

from headgate.errors import InputError, StoreError
from headgate.stores.postgres.store import PostgresStore
from headgate.testing.samples import document


@pytest.fixture
def store(postgres_url):
    store = PostgresStore(postgres_url)
    store.put("t", [document("a", "one", "two")])
    yield store
    store.close()


def test_values_go_by_place_and_rows_come_as_python_values(store):
    fetch = store._pool.fetch
    assert fetch("t", "SELECT %s::int + 1, %s::text", (1, "x\0\1")) == [(2, "x\0\1")]
    assert fetch("t", "SELECT %s::text[]", (["a", "b"],)) == [(["a", "b"],)]
    assert fetch("t", "SELECT %s::bytea, NULL", (b"\0\xff",), binary=True) == [(b"\0\xff", None)]
    assert fetch("t", "SELECT 1 WHERE false") == []


def test_a_read_after_a_write_that_was_taken_back_works(store):
    for _ in range(7):
        assert store.head("t", "main") == 2
        with pytest.raises(StoreError), store._pool.write("t") as connection:
            connection.execute("SELECT nonsense")


def test_a_statement_that_fails_is_told_and_the_next_one_works(store):
    with pytest.raises(InputError, match="division by zero"):
        store._pool.fetch("t", "SELECT 1 / 0")
    with pytest.raises(StoreError, match="read-only"):
        store._pool.fetch("t", "DELETE FROM headgate.chunks")
    assert store.head("t", "main") == 2


def test_nothing_is_prepared_where_the_address_says_so(postgres_url):
    store = PostgresStore(f"{postgres_url}?prepared_statements=0")
    assert store._pool.fetch("t", "SELECT %s::text", ("x",)) == [("x",)]
    with store._pool.session() as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    store.close()


NOW = "SELECT current_setting('headgate.tenant', true), current_setting('transaction_read_only')"
LAST = "SELECT query FROM pg_stat_activity WHERE application_name = 'headgate'"


def test_a_read_is_for_one_tenant_and_leaves_nothing_set(store):
    for tenant in ("t", "other's"):
        assert store._pool.fetch(tenant, NOW) == [(tenant, "on")]
        with store._pool.session() as connection:
            assert connection.execute(NOW).fetchone() == ("", "off")


@pytest.mark.parametrize("cluster", [False, True])
def test_citus_is_told_the_tenant_after_a_begin(postgres, postgres_url, cluster):
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        if cluster:  # as `headgate store distribute` does
            admin.execute("ALTER ROLE gate SET citus.propagate_set_commands TO 'local'")
        store = PostgresStore(postgres_url)
        assert store._pool.fetch("t", NOW) == [("t", "on")]
        last = {query for (query,) in admin.execute(LAST)}
        store.close()
        admin.execute("ALTER ROLE gate RESET citus.propagate_set_commands")
    assert last == {"COMMIT" if cluster else NOW}
