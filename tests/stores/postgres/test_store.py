"""The PostgreSQL store keeps the contract, on a real server."""

import psycopg
import pytest
from tests.stores.quota import QuotaContract

from millgate.stores.postgres.store import PostgresStore
from millgate.testing import StoreContract
from millgate.testing.samples import trace
from millgate.types import Chunk, Document


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
            "SELECT reltuples FROM pg_class WHERE oid = 'millgate.chunks'::regclass"
        ).fetchone()
    assert believed >= 1_500


def test_one_unreadable_summary_costs_no_other_row(postgres_url):
    store = PostgresStore(postgres_url)
    for n in range(3):
        store.save_trace(trace(f"{n}", created=n))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT set_config('millgate.tenant', 't', false)")
        connection.execute("UPDATE millgate.traces SET summary = '{' WHERE id = '1'")
    assert [(row.id, row.query, bool(row.degraded)) for row in store.traces("t")] == [
        ("2", "who?", False),
        ("1", "", True),
        ("0", "who?", False),
    ]
    store.close()
