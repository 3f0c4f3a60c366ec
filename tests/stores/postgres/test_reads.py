"""A statement and its transaction in one round trip: values go in, rows come out, and what fails leaves nothing."""

from contextvars import copy_context

import psycopg
import pytest

from millgate.errors import InputError, StoreError
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document
from millgate.types import Edge, Fact


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
        store._pool.fetch("t", "DELETE FROM millgate.chunks")
    assert store.head("t", "main") == 2


def test_nothing_is_prepared_if_the_address_says_so(postgres_url):
    store = PostgresStore(f"{postgres_url}?prepared_statements=0")
    assert store._pool.fetch("t", "SELECT %s::text", ("x",)) == [("x",)]
    with store._pool.session() as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    store.close()


@pytest.fixture
def trips(store, monkeypatch):
    """How many statements went in each round trip."""
    sent, fetch = [], store._pool._fetch

    def counted(tenant, asks, *args, **options):
        sent.append(len(asks))
        return fetch(tenant, asks, *args, **options)

    monkeypatch.setattr(store._pool, "_fetch", counted)
    return sent


def ask(store, after=0):
    """What requests read, one after the other."""
    with store.one_request():
        size = store.size("t", "main")
        return size.chunks, store.has_edges("t"), store.fact_changes("t", after)


def test_a_request_reads_at_once_what_the_last_one_read_one_by_one(store, trips):
    assert [ask(store) for _ in range(3)] == [(2, False, [])] * 3
    assert trips == [1, 1, 1, 3, 3]
    store.put("t", [document("b", "three")])
    store.save_fact("t", Fact("f", "The quay is long."))
    assert [change.id for change in ask(store)[2]] == ["f"]
    assert trips[5:] == [3]
    assert ask(store, after=1) == (3, False, [])
    assert trips[6:] == [3, 1], "the facts of another place are read anew"
    ask(store, after=1)
    assert trips[8:] == [3]


def test_what_was_read_ahead_is_given_once_and_to_its_request_alone(store, trips):
    ask(store)
    with store.one_request():
        store.size("t", "main")
        store.put("t", [document("b", "three")])
        later = copy_context()
        store.link("t", [Edge("a", "knows", "b")])
        assert not store.has_edges("t"), "read before"
        assert store.has_edges("t")
        assert store.size("t", "main").chunks == 3
        store.save_fact("t", Fact("f", "The quay is long."))
    assert store.has_edges("t")
    assert len(later.run(store.fact_changes, "t", 0)) == 1, "the request is over"


def test_a_read_that_fails_does_not_take_the_next_request_with_it(store):
    broken = "SELECT 1 / %s::int"
    with store.one_request():
        store.size("t", "main")
        store._pool.fetch_first("t", broken, 1)
    store._pool._followed = {
        first: [(broken, (0,))] for first in store._pool._followed
    }  # it fails from now on
    with pytest.raises(InputError), store.one_request():
        store.size("t", "main")
    for _ in range(2):
        with store.one_request():
            assert store.size("t", "main").chunks == 2
            with pytest.raises(InputError):
                store._pool.fetch_first("t", broken, 0)


NOW = "SELECT current_setting('millgate.tenant', true), current_setting('transaction_read_only')"
TOLD = "SELECT current_setting('citus.propagate_set_commands', true)"
LAST = "SELECT query FROM pg_stat_activity WHERE application_name = 'millgate'"


def test_a_read_is_for_one_tenant_and_leaves_nothing_set(store):
    for tenant in ("t", "other's"):
        assert store._pool.fetch(tenant, NOW) == [(tenant, "on")]
        with store._pool.session() as connection:
            assert connection.execute(NOW).fetchone() == ("", "off")


@pytest.mark.parametrize("cluster", [False, True])
def test_citus_is_told_the_tenant_after_a_begin(postgres, postgres_url, cluster):
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        if cluster:  # what a server with Citus says of itself
            admin.execute("ALTER ROLE gate SET citus.propagate_set_commands TO 'none'")
        store = PostgresStore(postgres_url)
        told = "local" if cluster else None
        for begun in (store._pool.read("t"), store._pool.write("t"), store._pool.directory()):
            with begun as connection:
                assert connection.execute(TOLD).fetchone() == (told,)
        assert store._pool.fetch("t", TOLD) == [(told,)]
        assert store._pool.fetch("t", NOW) == [("t", "on")]
        last = {query for (query,) in admin.execute(LAST)}
        store.close()
        admin.execute("ALTER ROLE gate RESET citus.propagate_set_commands")
    assert last == {"COMMIT" if cluster else NOW}


def test_a_request_that_reads_of_two_tenants_reads_nothing_ahead_of_the_other(store):
    store.put("u", [document("a", "one")])
    for _ in range(2):
        with store.one_request():
            sizes = [store.size(tenant, "main").chunks for tenant in ("t", "u", "t")]
        assert sizes == [2, 1, 2]
