"""The SQLite store keeps the contract."""

from contextlib import closing
from functools import partial

import pytest

from millgate.ingest.load import add_rows
from millgate.ingest.policy import IngestPolicy
from millgate.stores.sqlite.store import SqliteStore
from millgate.testing import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        store = SqliteStore(tmp_path / "kb")
        yield store
        store.close()


def test_a_document_is_read_without_those_before_it(tmp_path):
    with closing(SqliteStore(tmp_path / "kb")) as store:
        add = partial(add_rows, store, "t", policy=IngestPolicy())
        add([{"id": "0", "text": "one"}])
        alone = _steps_of_reading(store, "0")
        add([{"id": f"{n}", "text": "one"} for n in range(1, 1000)])
        assert 0 < _steps_of_reading(store, "999") < 2 * alone


def test_a_long_document_is_read_once(tmp_path):
    with closing(SqliteStore(tmp_path / "kb")) as store:
        steps = []
        for turns in (1_000, 4_000):
            add_rows(
                store, "t", [{"id": "log", "text": "User: x\n" * turns}], policy=IngestPolicy()
            )
            steps.append(_steps_of_reading(store, "log"))
        assert steps[1] < 5 * steps[0]


def _steps_of_reading(store, document):
    """How many instructions SQLite runs."""
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    with store._pool.read() as connection:
        connection.set_progress_handler(count, 1)
    assert list(store.scan("t", "main", document=document))
    with store._pool.read() as connection:
        connection.set_progress_handler(None, 1)
    return steps
