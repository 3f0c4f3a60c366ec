"""What one tenant may hold: documents, facts and edges together, counted inside the write."""

from contextlib import closing

import pytest
from tests.stores.quota import QuotaContract

from millgate.errors import QuotaError
from millgate.gateway import Millgate
from millgate.stores.sqlite.store import SqliteStore
from millgate.types import Edge, Fact


class TestSqliteQuota(QuotaContract):
    @pytest.fixture
    def store(self, tmp_path):
        with closing(SqliteStore(tmp_path, tenant_bytes=10_000)) as store:
            yield store


def test_the_setting_holds_for_a_gate_over_a_folder(tmp_path):
    with Millgate.open(tmp_path, limits={"tenant_bytes": 2_000}) as gate:
        gate.add([{"id": "a", "text": "short"}])
        with pytest.raises(QuotaError, match="tenant_bytes"):
            gate.add([{"id": "b", "text": "long " * 1_000}])
        assert gate.collections()["main"].documents == 1


def test_a_write_reads_none_of_the_other_edges_and_facts(tmp_path):
    with closing(SqliteStore(tmp_path, tenant_bytes=10_000_000)) as store:
        store.link("t", [Edge("a", "is", "b")])
        store.save_fact("t", Fact("f", "a fact"))
        alone = _steps_of(store, lambda: store.link("t", [Edge("a", "is", "c")]))
        store.link("t", [Edge(f"{n}", "is", "b") for n in range(1_000)])
        for n in range(100):
            store.save_fact("t", Fact(f"{n}", f"fact {n}"))
        among_many = _steps_of(store, lambda: store.link("t", [Edge("a", "is", "d")]))
        assert 0 < among_many < 2 * alone


def _steps_of(store, write):
    """How many instructions SQLite runs for a write."""
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    with store._pool.write() as connection:
        connection.set_progress_handler(count, 1)
    write()
    with store._pool.write() as connection:
        connection.set_progress_handler(None, 1)
    return steps
