"""A store moves between SQLite and PostgreSQL with all it holds, in either direction, and on from where it stopped."""

from dataclasses import replace

import pytest

from millgate.errors import StoreError
from millgate.operations.check import check_store
from millgate.operations.copy import copy_store, tally
from millgate.stores.postgres.store import PostgresStore
from millgate.stores.sqlite.store import SqliteStore
from millgate.testing import FailingStore
from millgate.testing.samples import document, follow, trace
from millgate.types import Edge, Fact, Key, Review, Spend


def fill(store):
    for tenant in ("t", "u"):
        names = [f"d{n}" for n in range(30)]
        store.put(
            tenant, [document(name, f"{name} one", "two\0three", digest=name) for name in names]
        )
        store.put(tenant, [document("z", "other", collection="notes", digest="z")])
        store.put(tenant, [document("d3", "d3 again", digest="new")])
        store.remove(tenant, "main", documents=["d7"])
        store.remove(tenant, "main", chunks=["d8#0"])
        store.attach(tenant, "main", "embedding/x/2", {"d3": b"\0\1\2\3"})
        store.link(tenant, [Edge("a", "is", f"b{n}", weight=n / 7) for n in range(5)])
        store.save_fact(tenant, Fact("f", f"fact of {tenant}", trust=0.25))
        store.save_review(tenant, Review("r", "why?"))
        store.save_review(tenant, Review("s", "how?"))
        store.decide(tenant, Review("s", "how?", status="answered"), fact=Fact("g", "so"))
        store.rotate(tenant, expires=5.0)
        store.save_key(Key("k", f"hash-{tenant}", tenant, created=1.0))
        store.amend_spends(tenant, [("session", "x")], lambda rows: [replace(rows[0], tokens=7)])
        for n in range(3):
            store.save_trace(trace(str(n), tenant=tenant, created=n))


@pytest.fixture
def sqlite(tmp_path):
    store = SqliteStore(tmp_path / "kb")
    yield store
    store.close()


@pytest.fixture
def postgres_store(postgres_url):
    store = PostgresStore(postgres_url)
    yield store
    store.close()


def test_everything_arrives_and_comes_back(sqlite, postgres_store, tmp_path):
    fill(sqlite)
    seen = []
    found = copy_store(sqlite, postgres_store, on_chunks=lambda *told: seen.append(told))
    assert all(one.equal for one in found), found
    kinds = {one.kind for one in found}
    assert kinds == {"documents", "chunks", "attachments", "edges", "facts", "reviews",
                     "secrets", "keys", "spends", "traces"}  # fmt: skip
    assert seen[-1][0] == seen[-1][1] > 0
    assert list(postgres_store.scan("t", "main")) == list(sqlite.scan("t", "main"))
    assert follow(postgres_store, "t", "main") == {c.id: c for c in sqlite.scan("t", "main")}
    assert postgres_store.secret("t") == sqlite.secret("t"), "what was signed can still be verified"
    assert check_store(postgres_store, tmp_path) == []

    again = SqliteStore(tmp_path / "again")
    assert all(one.equal for one in copy_store(postgres_store, again))
    assert tally(again, "u") == tally(sqlite, "u")
    again.close()


def test_a_copy_that_was_stopped_goes_on_and_does_nothing_twice(
    sqlite, postgres_store, monkeypatch
):
    monkeypatch.setattr("millgate.operations.copy._BATCH", 10)
    fill(sqlite)
    stopping = FailingStore(postgres_store, methods=["put"], after=3)
    with pytest.raises(StoreError):
        copy_store(sqlite, stopping)
    there = postgres_store.head("t", "main")
    assert 0 < there < sqlite.size("t", "main").chunks
    assert all(one.equal for one in copy_store(sqlite, postgres_store))
    heads = {name: postgres_store.head("t", name) for name in ("main", "notes")}
    assert all(one.equal for one in copy_store(sqlite, postgres_store))
    assert {name: postgres_store.head("t", name) for name in heads} == heads


def test_what_differs_afterwards_is_told(sqlite, postgres_store):
    fill(sqlite)
    postgres_store.put("t", [document("other", "was here before")])
    found = {(one.tenant, one.kind): one.equal for one in copy_store(sqlite, postgres_store)}
    assert not found["t", "documents"]
    assert not found["t", "chunks"]
    assert found["t", "facts"]
    assert found["u", "documents"]


def test_spends_that_were_there_are_replaced(sqlite, postgres_store):
    fill(sqlite)
    postgres_store.amend_spends("t", [("session", "x")], lambda rows: [replace(rows[0], tokens=99)])
    copy_store(sqlite, postgres_store)
    assert [(spend.name, spend.tokens) for spend in postgres_store.spends("t")] == [("x", 7)]
    assert isinstance(postgres_store.spends("t")[0], Spend)
