"""The in-memory store keeps the contract."""

import pytest

from headgate.errors import StoreError
from headgate.stores.memory.store import MemoryStore
from headgate.testing import FailingStore, FixedClock, StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self):
        store = MemoryStore()
        yield store
        store.close()


def test_a_failing_store_fails_where_told_and_mends():
    store = FailingStore(MemoryStore(), methods={"head"}, after=1)
    assert store.head("t", "main") == 0
    assert list(store.scan("t", "main")) == []
    with pytest.raises(StoreError, match="down"):
        store.head("t", "main")
    assert store.failed == 1
    store.repair()
    assert store.head("t", "main") == 0


def test_a_failing_store_without_methods_fails_everywhere():
    store = FailingStore(MemoryStore())
    with pytest.raises(StoreError):
        store.secret("t")
    store.close()


def test_a_fixed_clock_moves_only_when_told():
    clock = FixedClock(10.0)
    assert (clock(), clock(), clock.advance(5.0), clock()) == (10.0, 10.0, 15.0, 15.0)
    assert MemoryStore(clock=clock).secrets("t")[0].created == 15.0
