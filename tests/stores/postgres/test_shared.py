"""Gateways over one store share rates and remembered values."""

import time

import pytest

from millgate.protocols import SharedState
from millgate.stores.postgres.store import PostgresStore
from millgate.stores.temporary import TemporaryStore
from millgate.types import Fact


@pytest.fixture
def stores(postgres_url):
    made = [PostgresStore(postgres_url) for _ in range(2)]
    yield made
    for store in made:
        store.close()


def test_two_gateways_take_from_one_bucket_which_fills_again(stores):
    one, two = stores
    taken = [store.take_request("t", "k", per_second=0.001, burst=3) for store in (one, two, one)]
    assert taken == [0.0, 0.0, 0.0]
    wait_s = two.take_request("t", "k", per_second=0.001, burst=3)
    assert 900 < wait_s <= 1000
    assert two.take_request("t", "other", per_second=0.001, burst=3) == 0.0
    assert two.take_request("u", "k", per_second=0.001, burst=3) == 0.0
    time.sleep(0.01)
    assert one.take_request("t", "k", per_second=1000, burst=3) == 0.0


def test_a_bucket_never_holds_more_than_its_burst(stores):
    one, two = stores
    assert one.take_request("t", "k", per_second=1e6, burst=2) == 0.0
    time.sleep(0.01)
    assert two.take_request("t", "k", per_second=1e6, burst=2) == 0.0, "full again, and one less"
    assert two.take_request("t", "k", per_second=1e-6, burst=2) == 0.0
    assert two.take_request("t", "k", per_second=1e-6, burst=2) > 0


def test_the_first_value_under_a_key_stays_for_every_gateway(stores):
    one, two = stores
    assert two.recall("t", [b"\0k"]) == {}
    assert one.remember("t", b"\0k", b"first") == b"first"
    assert two.remember("t", b"\0k", b"second") == b"first"
    assert two.recall("t", [b"none", b"\0k"]) == {b"\0k": b"first"}
    assert two.recall("u", [b"\0k"]) == {}


def test_values_go_after_a_month(postgres_url, stores):
    now = [1_000_000.0]
    store = PostgresStore(postgres_url, clock=lambda: now[0])
    store.remember("t", b"old", b"1")
    now[0] += 40 * 86_400
    late = PostgresStore(postgres_url, clock=lambda: now[0])
    late.remember("t", b"new", b"2")
    assert late.recall("t", [b"old", b"new"]) == {b"new": b"2"}
    store.close()
    late.close()


def test_only_a_store_that_machines_share_has_shared_state(stores):
    assert isinstance(stores[0], SharedState)
    assert not isinstance(TemporaryStore(), SharedState)


def test_a_tenant_that_is_known_is_looked_up_and_not_written_again(stores, monkeypatch):
    """A write would need every server of a cluster, and a new gateway could write for nobody while one is away."""
    one, two = stores
    one.save_fact("t", Fact("f", "fact"))
    monkeypatch.setattr(two._tenants._pool, "write", lambda *_: pytest.fail("it was written again"))
    two._tenants.add("t")
    monkeypatch.undo()
    two.save_fact("u", Fact("f", "fact"))
    assert one.tenants() == ["t", "u"]


def test_what_is_remembered_of_tenants_is_bounded(stores, monkeypatch):
    one, _ = stores
    monkeypatch.setattr(one._pool, "fetch", lambda *_: [(1,)])
    for n in range(20_000):
        one._tenants.add(f"tenant-{n}")
    assert one._tenants._seen.bytes <= 4 << 20
    assert len(one._tenants._seen) < 20_000


def test_gateways_take_turns_at_pruning_all_tenants(postgres_url):
    now = [1_000_000.0]
    one, two = (PostgresStore(postgres_url, clock=lambda: now[0]) for _ in range(2))
    assert one.lease_upkeep(3600.0) == now[0]
    assert two.lease_upkeep(3600.0) is None
    now[0] += 3000
    assert one.lease_upkeep(0.0) == now[0], "it is still at it"
    now[0] += 3000
    assert two.lease_upkeep(3600.0) is None
    now[0] += 3000
    assert two.lease_upkeep(3600.0) == now[0]
    assert one.lease_upkeep(3600.0) is None
    for store in (one, two):
        store.close()
