"""The change feed has no gaps, whoever writes at the same time and commits in whatever order."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.postgres_server import has_distributed_tables
from tests.waiting import MOST_S, until

from millgate.stores.postgres.store import PostgresStore
from millgate.stores.sql.writer import CollectionWriter
from millgate.testing.samples import document


@pytest.fixture
def store(postgres_url):
    store = PostgresStore(postgres_url)
    yield store
    store.close()


class SlowWriter:
    """A gateway that has numbered its change and does not commit before it is told to."""

    def __init__(self, url):
        self.store = PostgresStore(url)
        self.written, self.commit = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        assert self.written.wait(MOST_S)

    def run(self):
        with self.store._pool.write("t") as connection:
            slow = document("slow", "began first")
            CollectionWriter(connection, "t", "main").put({"slow": slow})
            self.written.set()
            assert self.commit.wait(MOST_S)

    def finish(self):
        self.commit.set()
        self.thread.join()
        self.store.close()


def wait_for_lock(server):
    """Until a writer of the store waits for another one, here or on a worker of a cluster."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(server.url, autocommit=True) as connection:
        if has_distributed_tables(server.url):
            sql = f"SELECT sum(result::int) FROM run_command_on_workers($${sql}$$)"
        until(lambda: connection.execute(sql).fetchone()[0])


def test_a_later_writer_cannot_be_seen_before_an_earlier_one(store, postgres):
    slow = SlowWriter(postgres.url)
    quick = threading.Thread(target=store.put, args=("t", [document("quick", "began second")]))
    quick.start()
    wait_for_lock(postgres)
    # with a number taken before the commit, a reader would now see 2, go on from there, and never see 1
    assert store.changes("t", "main", 0) == []
    slow.finish()
    quick.join()
    assert [(c.seq, c.id) for c in store.changes("t", "main", 0)] == [(1, "slow"), (2, "quick")]


def test_writers_of_other_collections_and_tenants_do_not_wait(store, postgres):
    slow = SlowWriter(postgres.url)
    assert store.put("t", [document("a", "x", collection="other")]) == 1
    assert store.put("u", [document("a", "x")]) == 1
    store.amend_spends("t", [("tenant", "")], lambda rows: rows)
    slow.finish()
    assert store.head("t", "main") == 1


def test_a_writer_that_fails_leaves_no_number_behind(store):
    store.put("t", [document("a", "x")])

    def fail():
        with store._pool.write("t") as connection:
            CollectionWriter(connection, "t", "main").put({"b": document("b", "y")})
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    store.put("t", [document("c", "z")])
    assert [(c.seq, c.id) for c in store.changes("t", "main", 0)] == [(1, "a"), (2, "c")]


def test_a_reader_that_follows_many_gateways_misses_nothing(postgres_url):
    gateways = [PostgresStore(postgres_url) for _ in range(3)]
    seen, writing = {}, threading.Event()

    def write(n):
        for step in range(12):
            name = f"d{n}-{step % 5}"
            if step % 4 == 3:
                gateways[n].remove("t", "main", documents=[name])
            else:
                gateways[n].put("t", [document(name, f"text {step}", "more")])

    def follow(reader):
        after = 0
        while not writing.is_set() or after < reader.head("t", "main"):
            for change in reader.changes("t", "main", after, 3):
                assert change.seq > after
                after = change.seq
                seen[change.id] = change.chunk

    reader = PostgresStore(postgres_url)
    follower = threading.Thread(target=follow, args=(reader,))
    follower.start()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    writing.set()
    follower.join()
    held = {chunk.id: chunk for chunk in reader.scan("t", "main")}
    assert {id: chunk for id, chunk in seen.items() if chunk} == held
    for store in (*gateways, reader):
        store.close()


def test_every_gateway_keeps_its_own_two_marks(store):
    for mark, former in (("a1", ""), ("b1", ""), ("a2", "a1"), ("a3", "a2"), ("b2", "b1")):
        store.mark_index("t", "main", mark, former=former)
    assert set(store.index_marks("t", "main")) == {"a3", "a2", "b2", "b1"}
