"""Row-level security is a second wall: a query that forgets its tenant sees nothing, whatever its WHERE says."""

import psycopg
import pytest

from headgate.protocols import PostingBlock, Totals
from headgate.stores.postgres.migrations import BY_TENANT, DIRECTORY
from headgate.stores.postgres.store import PostgresStore
from headgate.testing.samples import document, trace
from headgate.types import Edge, Fact, Key, Review


@pytest.fixture
def store(postgres_url):
    store = PostgresStore(postgres_url)
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
        store.offer_embeddings(tenant, "main", "embedding/none/2")
        store.lease_postings(tenant, "main", Totals())
        block = PostingBlock(
            [("a#0", b"draft")], [], [(1, b"list")], {1: 1}, Totals(seen=1, chunks=1)
        )
        store.save_block(tenant, "main", block, after=Totals())
    yield store
    store.close()


@pytest.fixture
def owner(store, postgres):
    """A connection of the role that owns the tables, as any program with the password has one."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("table", [*BY_TENANT, *DIRECTORY])
def test_without_a_tenant_nothing_is_seen_or_changed(owner, table):
    assert owner.execute(f"SELECT * FROM headgate.{table}").fetchall() == []
    assert owner.execute(f"DELETE FROM headgate.{table}").rowcount == 0
    with owner.transaction():
        owner.execute("SET LOCAL headgate.tenant = 't'")
        rows = owner.execute(f"SELECT tenant FROM headgate.{table}").fetchall()
        assert {tenant for (tenant,) in rows} == {"t"}
    assert owner.execute(f"SELECT * FROM headgate.{table}").fetchall() == [], "no longer than that"


def test_a_tenant_cannot_write_rows_of_another(owner):
    owner.execute("SET headgate.tenant = 't'")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        owner.execute("INSERT INTO headgate.facts VALUES ('u', 'x', '', 9, '')")


def test_every_table_of_the_schema_is_behind_the_wall_or_holds_nothing_of_a_tenant(owner):
    rows = owner.execute(
        "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class"
        " WHERE relnamespace = 'headgate'::regnamespace AND relkind IN ('r', 'p')"
    ).fetchall()
    assert {name for name, walled in rows if not walled} == {"migrations", "store"}


def test_a_name_that_looks_like_sql_is_only_a_name(store):
    for name in ("it's", "x'; DROP SCHEMA headgate; --", "back\\slash", "漢", '"quoted"'):
        store.put(name, [document("a", name)])
        assert [chunk.text for chunk in store.scan(name, "main")] == [name]
