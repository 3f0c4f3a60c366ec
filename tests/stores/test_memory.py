"""The in-memory store keeps the contract."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from millgate.errors import StoreError
from millgate.stores.codec import encode
from millgate.stores.memory.store import MemoryStore
from millgate.testing import FailingStore, FixedClock, StoreContract
from millgate.testing.samples import trace
from millgate.types import Candidate, Chunk


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


class CountedReads(Mapping):
    """Metadata that counts how often it is read through."""

    def __init__(self):
        self.reads = 0

    def __getitem__(self, key):
        return 1

    def __len__(self):
        return 1

    def __iter__(self):
        self.reads += 1
        return iter(["n"])


def test_pruning_encodes_no_trace_again():
    store, metadata = MemoryStore(), CountedReads()
    chunk = Chunk("a", "text", metadata=metadata)
    store.save_trace(replace(trace("1"), candidates=(Candidate(chunk, 0.5),)))
    after_saving = metadata.reads
    for _ in range(3):
        assert store.prune_traces(keep=10, max_bytes=1_000_000) == 0
    assert metadata.reads == after_saving


def test_pruning_by_bytes_keeps_the_newest_traces_that_fit():
    store = MemoryStore()
    size = len(encode(trace("0")))
    for n in range(5):
        store.save_trace(trace(str(n)))
    assert store.prune_traces(keep=10, max_bytes=3 * size) == 2
    assert [one.id for one in store.traces("t")] == ["4", "3", "2"]
    assert store.prune_traces(keep=10, max_bytes=2 * size - 1) == 2
    assert [one.id for one in store.traces("t")] == ["4"]
