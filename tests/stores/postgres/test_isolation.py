"""Row-level security is a second wall: a query that forgets its tenant sees nothing, whatever its WHERE says."""

import psycopg
import pytest

from millgate.stores.postgres.migrations import BY_TENANT, DIRECTORY
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document, trace
from millgate.types import Edge, Fact, Key, Review


@pytest.fixture
def store(gateway_url):
    store = PostgresStore(gateway_url)
    for tenant in ("t", "u"):
        store.put(tenant, [document("a", "text", "gone")])
        store.remove(tenant, "main", chunks=["a#1"])
        store.attach(tenant, "main", "k", {"a#0": b"1"})
        store.mark_index(tenant, "main", "mark", former="")
        store.link(tenant, [Edge("a", "is", "b")])
        store.save_fact(tenant, Fact("f", "fact"))
        store.save_fact(tenant, Fact("g", "other"))
        store.forget(tenant, "g")
        store.rotate(tenant, expires=1.0)
        store.save_review(tenant, Review("r", "why?"))
        store.save_trace(trace("1", tenant=tenant))
        store.save_key(Key("k", f"hash-{tenant}", tenant))
        store.amend_spends(tenant, [("tenant", "")], lambda rows: rows)
        store.take_request(tenant, "k", per_second=1.0, burst=2)
        store.remember(tenant, b"k", b"value")
    yield store
    store.close()


def check_nothing_is_seen_without_a_tenant(connection, cluster):
    for table in (*BY_TENANT, *DIRECTORY):
        assert connection.execute(f"SELECT * FROM millgate.{table}").fetchall() == [], table
        assert connection.execute(f"DELETE FROM millgate.{table}").rowcount == 0, table
        with connection.transaction():
            set_tenant(connection, "t", cluster)
            rows = connection.execute(f"SELECT tenant FROM millgate.{table}").fetchall()
            assert {tenant for (tenant,) in rows} == {"t"}, table
        assert connection.execute(f"SELECT * FROM millgate.{table}").fetchall() == [], "no longer"


def set_tenant(connection, tenant, cluster):
    """As the store does: workers are told what SET LOCAL says after a BEGIN, if they are to be."""
    if cluster:
        connection.execute("SET LOCAL citus.propagate_set_commands = 'local'")
    connection.execute(f"SET LOCAL millgate.tenant = '{tenant}'")


def test_without_a_tenant_a_gateways_role_sees_and_changes_nothing(store, gateway_url):
    """As any program with its password could try."""
    with psycopg.connect(gateway_url, autocommit=True) as connection:
        check_nothing_is_seen_without_a_tenant(connection, store.is_distributed)


def test_nor_does_the_owner_of_the_tables_on_a_single_server(store, postgres):
    if store.is_distributed:
        return  # its shards could not move: docs/scale.md, and `millgate doctor` says so
    with psycopg.connect(postgres.url, autocommit=True) as owner:
        check_nothing_is_seen_without_a_tenant(owner, cluster=False)


def test_a_tenant_cannot_write_rows_of_another(store, gateway_url):
    with psycopg.connect(gateway_url) as connection:
        set_tenant(connection, "t", store.is_distributed)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO millgate.facts VALUES ('u', 'x', '', 9, '')")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE millgate.chunks DISABLE ROW LEVEL SECURITY",
        "DROP POLICY tenant ON millgate.chunks",
        "TRUNCATE millgate.chunks",
        "CREATE TABLE millgate.mine (x int)",
    ],
)
def test_a_gateways_role_cannot_lift_the_wall(store, gateway_url, statement):
    with (
        psycopg.connect(gateway_url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


def test_every_table_of_the_schema_is_behind_the_wall_or_holds_nothing_of_a_tenant(store, postgres):
    with psycopg.connect(postgres.url) as owner:
        rows = owner.execute(
            "SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class"
            " WHERE relnamespace = 'millgate'::regnamespace AND relkind IN ('r', 'p')"
        ).fetchall()
    assert {name for name, walled, _ in rows if not walled} == {"migrations", "store"}
    forced = {name for name, _, forced in rows if forced}
    held = DIRECTORY if store.is_distributed else (*BY_TENANT, *DIRECTORY)
    assert forced >= set(held)


def test_a_name_that_looks_like_sql_is_only_a_name(store):
    for name in ("it's", "x'; DROP SCHEMA millgate; --", "back\\slash", "漢", '"quoted"'):
        store.put(name, [document("a", name)])
        assert [chunk.text for chunk in store.scan(name, "main")] == [name]
