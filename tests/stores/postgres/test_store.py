"""The PostgreSQL store keeps the contract, on a real server."""

import pytest

from headgate.stores.postgres.store import PostgresStore
from headgate.testing import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, postgres_url):
        store = PostgresStore(postgres_url)
        yield store
        store.close()
