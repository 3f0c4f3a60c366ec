"""The PostgreSQL store keeps the contract, on a real server."""

import psycopg
import pytest

from headgate.stores.postgres.store import PostgresStore
from headgate.testing import StoreContract
from headgate.testing.quota import QuotaContract
from headgate.types import Chunk, Document


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, postgres_url):
        store = PostgresStore(postgres_url)
        yield store
        store.close()


class TestPostgresQuota(QuotaContract):
    @pytest.fixture
    def store(self, postgres_url):
        store = PostgresStore(postgres_url, tenant_bytes=10_000)
        yield store
        store.close()


def test_after_a_large_import_the_planner_knows_how_many_rows_there_are(postgres_url):
    store = PostgresStore(postgres_url)
    rows = [Document(f"d{n}", chunks=(Chunk(f"d{n}", f"text {n}"),)) for n in range(1_500)]
    store.put("t", rows)
    store.close()
    with psycopg.connect(postgres_url) as connection:
        (believed,) = connection.execute(
            "SELECT reltuples FROM pg_class WHERE oid = 'headgate.chunks'::regclass"
        ).fetchone()
    assert believed >= 1_500
