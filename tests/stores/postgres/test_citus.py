"""The SQL that distributes a store: every table of a tenant by tenant, together, and the wall up again."""

import re
import threading
from pathlib import Path

import psycopg
import pytest
from tests.postgres_server import OWN, has_distributed_tables
from tests.waiting import until

from millgate.errors import NotReady, StoreError
from millgate.gateway import Millgate
from millgate.stores.postgres import citus as citus_module
from millgate.stores.postgres.citus import TableLayout, distribute, distribute_sql, read_layout
from millgate.stores.postgres.migrations import BY_TENANT, DIRECTORY
from millgate.stores.postgres.rows import insert_rows
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document
from millgate.types import Edge, Fact, Key


def test_every_table_of_tenants_is_distributed_beside_the_others():
    lines = distribute_sql(TableLayout())
    spread = [line for line in lines if "create_distributed_table" in line]
    assert len(spread) == len(BY_TENANT)
    assert all("'tenant'" in line for line in spread)
    beside = sum("colocate_with => 'millgate.collections'" in line for line in spread)
    assert beside == len(BY_TENANT) - 1


def test_what_is_read_before_a_tenant_is_known_stays_on_the_coordinator():
    """A table that is copied to every worker could not be written while one of them is away."""
    said = " ".join(distribute_sql(TableLayout()))
    assert "create_reference_table" not in said
    for table in (*DIRECTORY, "store", "migrations"):
        assert f"millgate.{table}" not in said


def test_policies_are_off_while_rows_move_and_hold_for_all_but_the_owner_afterwards():
    """A shard is moved by a role that stands in for the owner, and must not be held by them."""
    lines = distribute_sql(TableLayout())
    moves = [n for n, line in enumerate(lines) if "create_" in line]
    for table in BY_TENANT:
        off = lines.index(
            f"ALTER TABLE millgate.{table} NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY"
        )
        on = lines.index(f"ALTER TABLE millgate.{table} ENABLE ROW LEVEL SECURITY")
        assert off < min(moves) <= max(moves) < on
    assert not any(" FORCE" in line.replace("NO FORCE", "") for line in lines)


def test_all_locks_are_taken_before_anything_is_changed_and_not_waited_for_in_turn():
    lines = distribute_sql(TableLayout())
    lock = next(n for n, line in enumerate(lines) if line.startswith("LOCK TABLE"))
    assert lines[lock - 1] == "SET LOCAL lock_timeout = 500", "less than deadlock_timeout"
    assert all(f"millgate.{table}" in lines[lock] for table in BY_TENANT)
    assert lock < min(n for n, line in enumerate(lines) if line.startswith(("ALTER", "SELECT")))


def test_only_what_is_still_to_do_is_done():
    assert distribute_sql(TableLayout(local=(), unlogged=())) == []
    lines = distribute_sql(TableLayout(local=("traces", "spends"), unlogged=()))
    moves = [line for line in lines if "create_" in line]
    assert [re.search(r"millgate\.(\w+)", line)[1] for line in moves] == [
        "traces",
        "spends",
    ]
    assert distribute_sql(TableLayout(local=(), forced=("chunks",), unlogged=())) == [
        "ALTER TABLE millgate.chunks NO FORCE ROW LEVEL SECURITY"
    ]


def test_what_was_moved_is_deleted_where_it_came_from_once_the_policies_are_back():
    *before, last = (
        n
        for n, line in enumerate(distribute_sql(TableLayout()))
        if not line.startswith("SELECT truncate")
    )
    gone = distribute_sql(TableLayout())[last + 1 :]
    assert before == list(range(last))
    assert {re.search(r"millgate\.(\w+)", line)[1] for line in gone} == {*BY_TENANT}


def test_each_shard_is_on_one_worker_since_no_others_can_be_locked():
    lines = distribute_sql(TableLayout())
    made = next(n for n, line in enumerate(lines) if "create_distributed" in line)
    assert lines.index("SET LOCAL citus.shard_replication_factor TO 1") < made


def test_a_server_without_citus_is_told_what_to_do(postgres, postgres_url):
    if has_distributed_tables(postgres.url):
        pytest.skip(OWN)
    store = PostgresStore(postgres_url)
    with store.session() as connection, pytest.raises(StoreError, match="CREATE EXTENSION citus"):
        distribute(connection, store.address)
    assert (store.local_tables(), store.unreachable_workers()) == ((), [])
    store.close()


@pytest.fixture
def pretended(postgres, postgres_url):
    """A single server that has what `distribute` asks Citus for, and does nothing when it is told to move a table."""
    PostgresStore(postgres_url).close()
    with psycopg.connect(postgres.admin, dbname="millgate", autocommit=True) as admin:
        admin.execute("""
            CREATE TABLE public.pg_dist_partition (logicalrelid regclass);
            GRANT SELECT, INSERT ON public.pg_dist_partition TO gate;
            CREATE FUNCTION public.create_distributed_table(relation text, by text, colocate_with text) RETURNS void
              LANGUAGE sql AS 'INSERT INTO public.pg_dist_partition VALUES (relation::regclass)';
            CREATE FUNCTION public.truncate_local_data_after_distributing_table(regclass) RETURNS void
              LANGUAGE sql AS 'SELECT'""")
        yield postgres_url
        admin.execute("""
            DROP TABLE public.pg_dist_partition;
            DROP FUNCTION public.create_distributed_table, public.truncate_local_data_after_distributing_table""")
        for table in BY_TENANT:
            admin.execute(f"ALTER TABLE millgate.{table} FORCE ROW LEVEL SECURITY")
        admin.execute("ALTER TABLE millgate.rates SET UNLOGGED")


def test_tables_are_distributed_once_and_beside_writers_that_never_fail(pretended, monkeypatch):
    monkeypatch.setattr(citus_module, "has_citus", lambda _: True)
    writer, store = PostgresStore(pretended), PostgresStore(pretended)
    done, written, failed = threading.Event(), [], []

    def write(n):
        step = 0
        while not done.is_set():
            try:
                writer.put(f"t{n}", [document(f"d{step}", "x")])
                writer.save_fact(f"t{n}", Fact(f"f{step}", f"fact {step}"))
                written.append((n, step))
            except StoreError as error:
                failed.append(error)
            step += 1

    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for one in writers:
        one.start()
    until(lambda: len(written) > 20)
    with store.session() as connection:
        assert len(read_layout(connection, store.address).local) == len(BY_TENANT)
        assert distribute(connection, store.address) == len(BY_TENANT)
        before = len(written)
        until(lambda: len(written) > before + 20)
        assert distribute(connection, store.address) == 0
        assert read_layout(connection, store.address) == TableLayout(local=(), unlogged=())
    done.set()
    for one in writers:
        one.join()
    assert failed == []
    for n in range(4):
        assert len(writer.digests(f"t{n}", "main")) >= sum(1 for m, _ in written if m == n)
    writer.close()
    store.close()


def test_tables_that_stay_in_use_are_left_as_they_are(pretended, monkeypatch):
    monkeypatch.setattr(citus_module, "has_citus", lambda _: True)
    monkeypatch.setattr(citus_module, "_LOCK_S", 0.1)
    store = PostgresStore(pretended)
    with store._pool.write("t") as busy:
        busy.execute("LOCK TABLE millgate.traces IN ROW EXCLUSIVE MODE")
        with (
            store.session() as connection,
            pytest.raises(NotReady, match="stop the gateways"),
        ):
            distribute(connection, store.address)
        with store.session() as connection:
            assert len(read_layout(connection, store.address).local) == len(BY_TENANT)
    store.close()


def test_shards_can_be_moved_while_they_are_in_use(postgres, postgres_url):
    """Citus moves them by logical replication, which takes no table that is not logged."""
    PostgresStore(postgres_url).close()
    unlogged = (
        "SELECT relname FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r'"
        " AND relnamespace = 'millgate'::regnamespace"
    )
    with psycopg.connect(postgres.url) as connection:
        for line in distribute_sql(TableLayout()):
            if line.startswith("ALTER TABLE"):
                connection.execute(line)
        assert connection.execute(unlogged).fetchall() == []
        connection.rollback()


def test_no_rows_of_a_query_are_inserted_by_copy():
    """Citus copies what a plain INSERT ... SELECT gives into its shards, and PostgreSQL takes no COPY there."""
    for file in Path(citus_module.__file__).parent.glob("*.py"):
        text = " ".join(file.read_text().replace('"', " ").split())
        for found in re.finditer(
            r"INSERT INTO millgate\.(\w+)(?: AS \w+)? ?(?:\([\w, ]*\) )?SELECT", text
        ):
            if found[1] not in ("store", "migrations", *DIRECTORY):
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
    superuser = postgres.admin  # skips on a server that is not ours
    store = PostgresStore(postgres_url)
    before = store.tables()
    with psycopg.connect(superuser, dbname="millgate", autocommit=True) as admin:
        admin.execute("""
            CREATE TABLE pg_dist_partition AS SELECT 'millgate.chunks'::regclass AS logicalrelid;
            GRANT SELECT ON pg_dist_partition TO gate;
            CREATE FUNCTION citus_total_relation_size(regclass, fail_on_error boolean) RETURNS bigint
            LANGUAGE sql AS 'SELECT 10^9::bigint'""")
        after = store.tables()
        admin.execute("DROP TABLE pg_dist_partition; DROP FUNCTION citus_total_relation_size")
    store.close()
    assert after == before | {"chunks": before["chunks"] + 10**9}


# -- on a cluster ------------------------------------------------------------------------------------------------------

_SHARD = """
SELECT shardid, nodename, nodeport FROM pg_dist_shard_placement
WHERE shardid = get_shard_id_for_distribution_column('millgate.collections', %s::text)
"""
_ELSEWHERE = """
SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' AND shouldhaveshards AND isactive
AND (nodename, nodeport) <> (%s, %s) LIMIT 1
"""


def test_a_shard_moves_while_its_tenant_is_written_and_nothing_is_lost(citus, gateway_url):
    store = PostgresStore(gateway_url)
    done, written = threading.Event(), []

    def write():
        while not done.is_set():
            store.put("mover", [document(f"d{len(written)}", "x")])
            store.take_request("mover", "k", per_second=1e6, burst=10)
            written.append(f"d{len(written)}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until(lambda: len(written) > 20 or not writer.is_alive())
        with psycopg.connect(citus.url, autocommit=True) as owner:
            owner.execute("SET statement_timeout = '2min'")  # with forced policies it never ends
            shard, *here = owner.execute(_SHARD, ("mover",)).fetchone()
            there = owner.execute(_ELSEWHERE, here).fetchone()
            move = "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, 'force_logical')"
            owner.execute(move, (shard, *here, *there))
            assert tuple(owner.execute(_SHARD, ("mover",)).fetchone()[1:]) == tuple(there)
        before = len(written)
        until(lambda: len(written) > before + 5 or not writer.is_alive())
        assert writer.is_alive()
    finally:
        done.set()
        writer.join()
    assert set(written) == set(store.digests("mover", "main"))
    assert [c.seq for c in store.changes("mover", "main", 0)] == list(range(1, len(written) + 1))
    store.close()


def test_who_there_is_stays_on_the_coordinator(citus, gateway_url):
    store = PostgresStore(gateway_url)
    store.save_key(Key("k", "hash", "t"))
    with store.session() as connection:
        rows = connection.execute("SELECT relname FROM pg_class JOIN pg_dist_partition ON oid = logicalrelid")  # fmt: skip
        spread = {name for (name,) in rows}
    assert spread >= {*BY_TENANT}
    assert not spread & {*DIRECTORY, "store", "migrations"}
    assert store.local_tables() == ()
    assert store.unreachable_workers() == []
    store.close()


def test_readiness_asks_no_worker(citus, gateway_url, tmp_path):
    """A worker that is away must not make every gateway unready."""
    with Millgate.open(f"{gateway_url}?cache={tmp_path}") as gate:
        assert [gate.check(part) for part in ("store", "index", "workers")] == ["", "", ""]
        with psycopg.connect(citus.url) as owner:
            owner.execute("LOCK TABLE millgate.collections IN ACCESS EXCLUSIVE MODE")
            assert [gate.check(part) for part in ("store", "index", "workers")] == ["", "", ""]
