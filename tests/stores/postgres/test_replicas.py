"""Reads go to a replica that is near enough, to the main server when it is not, and see one's own writes."""

import psycopg
import pytest
from tests.waiting import until

from headgate.stores.postgres.store import PostgresStore
from headgate.testing.samples import document


@pytest.fixture
def replica(postgres, postgres_url):
    PostgresStore(postgres_url).close()
    made = postgres.clone()
    yield made
    made.delete()


def test_a_replica_is_read_while_it_is_near_and_the_main_server_when_it_is_not(
    postgres, postgres_url, replica
):
    writer = PostgresStore(postgres_url)
    reader = PostgresStore(f"{postgres_url}?replica=127.0.0.1:{replica.port}&max_staleness_s=2")
    writer.put("t", [document("a", "x")])
    until(lambda: reader.head("t", "main") == 1)
    assert reader._replicas.fetch("t", "SELECT pg_is_in_recovery()") == [(True,)]
    assert [chunk.text for chunk in reader.chunks("t", "main", ["a"])] == ["x"]

    # a replica that stops replaying falls behind: the bound holds
    with psycopg.connect(replica.admin, autocommit=True) as admin:
        admin.execute("SELECT pg_wal_replay_pause()")
    writer.put("t", [document("b", "y")])
    until(lambda: reader.head("t", "main") == 2)
    with psycopg.connect(replica.admin, autocommit=True) as admin:
        admin.execute("SELECT pg_wal_replay_resume()")

    # so does one that has lost the main server: it has replayed all that it received
    until(lambda: reader._replicas.fetch("t", "SELECT pg_is_in_recovery()") == [(True,)])
    with psycopg.connect(replica.admin, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET primary_conninfo = ''")
        admin.execute("SELECT pg_reload_conf()")
        no_receiver = "SELECT count(*) FROM pg_stat_wal_receiver"
        until(lambda: admin.execute(no_receiver).fetchone() == (0,))
    writer.put("t", [document("c", "z")])
    until(lambda: reader.head("t", "main") == 3)

    # one that is gone costs nothing but its load
    replica.stop()
    assert reader.head("t", "main") == 3
    replica.start()
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
