"""The SQLite store keeps the contract."""

import pytest

from headgate.stores.sqlite.store import SqliteStore
from headgate.testing import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        store = SqliteStore(tmp_path / "kb")
        yield store
        store.close()
