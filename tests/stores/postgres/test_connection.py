"""Connections: bounded in number and in waiting, made anew when the server was away, none left behind."""

import os
import socket
import subprocess
import sys
import threading
import time

import psycopg
import pytest
from tests.waiting import until

from millgate.errors import NotReady, StoreError
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document

OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'millgate'"


def connections(server):
    with psycopg.connect(server.url, autocommit=True) as connection:
        return connection.execute(OURS).fetchone()[0]


def test_no_more_connections_are_made_than_allowed_and_all_are_closed(postgres, postgres_url):
    store = PostgresStore(f"{postgres_url}?pool_size=3")

    def work():
        for _ in range(5):
            store.head("t", "main")

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    assert connections(postgres) <= 3
    for thread in threads:
        thread.join()
    store.close()
    until(lambda: not connections(postgres))


def test_whoever_waits_too_long_for_a_connection_is_told_so(postgres_url):
    store = PostgresStore(f"{postgres_url}?pool_size=2&timeout_s=0.2")
    with (
        store._pool.read("t"),
        store._pool.read("t"),
        pytest.raises(NotReady, match=r"all 2 connections.*pool_size"),
    ):
        store.head("t", "main")
    assert store.head("t", "main") == 0
    store.close()


def test_an_error_in_a_transaction_takes_it_back_and_the_next_one_works(postgres_url):
    store = PostgresStore(f"{postgres_url}?pool_size=2")
    for _ in range(5):
        with pytest.raises(StoreError), store._pool.write("t") as connection:
            connection.execute("SELECT nonsense")
    store.put("t", [document("a", "x")])
    assert store.head("t", "main") == 1
    store.close()


def test_a_lock_that_is_held_too_long_is_told(postgres_url):
    store = PostgresStore(postgres_url)
    other = PostgresStore(f"{postgres_url}?timeout_s=0.2")
    store.put("t", [document("a", "x")])
    with store._pool.write("t") as connection:
        connection.execute("SELECT * FROM millgate.collections WHERE tenant = 't' FOR UPDATE")
        with pytest.raises(NotReady, match="held by another writer"):
            other.put("t", [document("b", "x")])
    assert other.put("t", [document("b", "x")]) == 1
    other.close()
    store.close()


def test_a_server_that_comes_back_is_waited_for_and_nothing_acknowledged_is_lost(
    postgres, postgres_url
):
    postgres.require_own()
    store = PostgresStore(f"{postgres_url}?timeout_s=15")
    done, acknowledged, failed = threading.Event(), [], []

    def write(n):
        step = 0
        while not done.is_set():
            name = f"{n}-{step}"
            try:
                store.put("t", [document(name, "x")])
                acknowledged.append(name)
            except NotReady as error:
                failed.append(str(error))
            step += 1

    writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for writer in writers:
        writer.start()
    until(lambda: len(acknowledged) >= 5)
    postgres.stop()
    postgres.start()
    before = len(acknowledged)
    until(lambda: len(acknowledged) >= before + 5)
    done.set()
    for writer in writers:
        writer.join()
    assert set(acknowledged) <= set(store.digests("t", "main"))
    assert connections(postgres) <= 3, "as many as there were threads"
    store.close()


def test_a_network_that_swallows_the_answer_is_given_up_on(postgres_url):
    silent = socket.create_server(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(NotReady, match="cannot be reached"):
        PostgresStore(
            f"postgresql://gate:x@127.0.0.1:{port}/millgate?connect_timeout=2&timeout_s=0.1"
        )
    assert time.monotonic() - began < 60
    silent.close()
    store = PostgresStore(f"{postgres_url}?timeout_s=0.1")
    with pytest.raises(NotReady, match="lost"), store._pool.read("t") as connection:
        connection.execute("SELECT pg_sleep(30)")
    assert store.head("t", "main") == 0
    store.close()


def test_a_forked_child_leaves_the_parents_connections_alone(postgres_url):
    store = PostgresStore(postgres_url)
    store.put("t", [document("a", "x")])
    child = os.fork()
    if not child:
        status = 1
        try:
            with pytest.raises(StoreError, match="opened before the process was forked"):
                store.head("t", "main")
            store.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert store.head("t", "main") == 1
    store.close()


WRITER = """
import sys
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document
store = PostgresStore(sys.argv[1])
for step in range(10_000):
    store.put("t", [document(f"k{sys.argv[2]}-{step}", "x", "y")])
    print(f"k{sys.argv[2]}-{step}", flush=True)
"""


def test_a_killed_gateway_loses_nothing_it_acknowledged_and_the_other_goes_on(postgres_url):
    store = PostgresStore(postgres_url)
    acknowledged = set()
    for n in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, postgres_url, str(n)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(8):
            acknowledged.add(process.stdout.readline().strip())
            store.put("t", [document("mine", f"text {n} {len(acknowledged)}")])
        process.kill()
        acknowledged |= set(process.communicate()[0].split("\n")[:-1])
        store.put("t", [document("mine", f"after {n}")])
    held = store.digests("t", "main")
    assert acknowledged <= held.keys()
    assert store.size("t", "main").chunks == len(list(store.scan("t", "main"))) == 2 * len(held) - 1
    store.close()


def test_an_idle_connection_that_the_server_closed_is_replaced_unseen(postgres, postgres_url):
    store = PostgresStore(postgres_url)
    store.head("t", "main")
    with psycopg.connect(postgres.url, autocommit=True) as owner:
        owner.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'millgate'"
        )
    assert store.head("t", "main") == 0
    store.close()


def test_a_pool_that_is_closed_says_so(postgres_url):
    store = PostgresStore(postgres_url)
    pool = store._pool
    assert isinstance(pool, Pool)
    store.close()
    with pytest.raises(StoreError, match="closed"), pool.read("t"):
        pass


def test_whoever_waits_for_a_server_is_told_for_which(caplog, monkeypatch):
    monkeypatch.setattr("millgate.stores.postgres.connection._PAUSES_S", (0.1,))  # told at once
    with pytest.raises(NotReady, match="cannot be reached"):
        PostgresStore("postgresql://ann:s3cret@127.0.0.1:9/kb?timeout_s=1.5")
    (said,) = [record.getMessage() for record in caplog.records]
    assert "cannot be reached" in said
    assert "waiting for it" in said
    assert "s3cret" not in said
