"""Gateways over one store share rates and remembered values."""

import time

import pytest

from headgate.protocols import SharedState
from headgate.stores.memory.store import MemoryStore
from headgate.stores.postgres.store import PostgresStore


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
    assert not isinstance(MemoryStore(), SharedState)
