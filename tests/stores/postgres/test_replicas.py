"""Reads go to a replica that is near enough, to the main server when it is not, and see one's own writes."""

import socket
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.postgres_server import PASSWORD
from tests.waiting import until

from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document


@pytest.fixture
def replica(postgres, postgres_url):
    PostgresStore(postgres_url).close()
    made = postgres.clone()
    yield made
    made.delete()


def reads_replica(store):
    return store._reads.fetch("t", "SELECT pg_is_in_recovery()") == [(True,)]


def test_a_replica_is_read_while_it_is_near_and_the_main_server_when_it_is_not(
    postgres, postgres_url, replica
):
    writer = PostgresStore(postgres_url)
    reader = PostgresStore(f"{postgres_url}?replica=127.0.0.1:{replica.port}&max_staleness_s=2")
    writer.put("t", [document("a", "x")])
    until(lambda: reads_replica(reader))
    until(lambda: reader.head("t", "main") == 1)
    assert [chunk.text for chunk in reader.chunks("t", "main", ["a"])] == ["x"]

    # a replica that stops replaying falls behind: the bound holds
    with psycopg.connect(replica.admin, autocommit=True) as admin:
        admin.execute("SELECT pg_wal_replay_pause()")
    writer.put("t", [document("b", "y")])
    until(lambda: reader.head("t", "main") == 2)
    with psycopg.connect(replica.admin, autocommit=True) as admin:
        admin.execute("SELECT pg_wal_replay_resume()")

    # so does one that has lost the main server: it has replayed all that it received
    until(lambda: reads_replica(reader))
    with psycopg.connect(replica.admin, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET primary_conninfo = ''")
        admin.execute("SELECT pg_reload_conf()")
        no_receiver = "SELECT count(*) FROM pg_stat_wal_receiver"
        until(lambda: admin.execute(no_receiver).fetchone() == (0,))
    writer.put("t", [document("c", "z")])
    until(lambda: reader.head("t", "main") == 3)

    for store in (reader, writer):
        store.close()


def test_a_gateway_sees_what_it_wrote(postgres_url, replica):
    store = PostgresStore(f"{postgres_url}?replica=127.0.0.1:{replica.port}&max_staleness_s=60")
    with psycopg.connect(replica.admin, autocommit=True) as admin:
        admin.execute("SELECT pg_wal_replay_pause()")
    for n in range(3):
        store.put("t", [document("a", f"text {n}")])
        assert store.chunks("t", "main", ["a"])[0].text == f"text {n}"
    with psycopg.connect(replica.admin, autocommit=True) as admin:
        admin.execute("SELECT pg_wal_replay_resume()")
    store.close()


def test_no_request_waits_for_a_replica_that_is_away_and_it_is_read_again_when_it_is_back(
    postgres_url, replica, caplog
):
    writer = PostgresStore(postgres_url)
    writer.put("t", [document("a", "x")])
    # whoever waited for the replica would wait an hour
    address = f"{postgres_url}?replica=127.0.0.1:{replica.port}&max_staleness_s=60&timeout_s=3600"
    store = PostgresStore(address)
    until(lambda: reads_replica(store))
    replica.stop("immediate")
    for _ in range(50):
        assert store.head("t", "main") == 1
        assert store.chunks("t", "main", ["a"])
    until(lambda: "is left alone" in caplog.text)
    assert PASSWORD not in caplog.text
    fresh = PostgresStore(address)
    assert fresh.head("t", "main") == 1
    replica.start()
    until(lambda: reads_replica(store))
    until(lambda: reads_replica(fresh))
    for one in (writer, store, fresh):
        one.close()


def test_no_request_waits_for_a_replica_that_says_nothing(postgres_url):
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        # whoever waited for it would wait an hour
        wait = "connect_timeout=3600&timeout_s=3600&max_staleness_s=0"
        store = PostgresStore(f"{postgres_url}?replica=127.0.0.1:{port}&{wait}")
        assert store.head("t", "main") == 0
        with silent.accept()[0]:  # it was asked in the background, and does not answer
            for _ in range(20):
                assert store.head("t", "main") == 0
            store.close()


def test_a_read_that_fails_on_the_replica_is_read_on_the_main_server(postgres_url, replica):
    writer = PostgresStore(postgres_url)
    writer.put("t", [document("a", "x")])
    store = PostgresStore(f"{postgres_url}?replica=127.0.0.1:{replica.port}&max_staleness_s=60")
    until(lambda: reads_replica(store))
    fails_there = "SELECT 1 / (NOT pg_is_in_recovery())::int"
    assert store._reads.fetch("t", fails_there) == [(1,)]
    until(lambda: reads_replica(store))
    store.close()
    writer.close()


def test_many_threads_read_a_replica_at_once(postgres_url, replica):
    store = PostgresStore(f"{postgres_url}?replica=127.0.0.1:{replica.port}&max_staleness_s=60")
    with ThreadPoolExecutor(4) as pool:
        until(lambda: all(pool.map(lambda _: reads_replica(store), range(4))))
    store.close()
