"""The check of a PostgreSQL store finds what does not fit together, and mends what is derived."""

import psycopg
import pytest

from headgate.gateway import Headgate
from headgate.operations.check_postgres import check_postgres
from headgate.stores.postgres.store import PostgresStore


@pytest.fixture
def gate(postgres_url, tmp_path):
    with Headgate.open(f"{postgres_url}?cache={tmp_path}") as gate:
        gate.add([{"id": f"d{n}", "text": f"Refund {n} takes {n} days."} for n in range(20)])
        gate.context("how long does refund 3 take?")
        yield gate


def damage(server, *statements):
    with psycopg.connect(server.admin, dbname="headgate", autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_sound_store_has_no_findings(gate, tmp_path):
    assert check_postgres(gate.store, tmp_path) == []


def test_what_is_wrong_is_found_and_mended(gate, postgres, tmp_path):
    damage(
        postgres,
        "UPDATE headgate.collections SET chunks = 3",
        "DELETE FROM headgate.attachments WHERE id = 'd1'",
        "INSERT INTO headgate.attachments SELECT tenant, collection, 'gone', kind, value"
        " FROM headgate.attachments LIMIT 1",
        "INSERT INTO headgate.removed SELECT tenant, collection, id, 1 FROM headgate.chunks LIMIT 1",
    )
    found = [one.what for one in check_postgres(gate.store, tmp_path)]
    for words in (
        "size of default/main",
        "lack the fingerprint",
        "chunk that is gone",
        "that is there",
    ):
        assert any(words in one for one in found), words
    assert all(one.repaired for one in check_postgres(gate.store, tmp_path, repair=True))
    assert check_postgres(gate.store, tmp_path) == []


def test_what_cannot_be_mended_is_told(gate, postgres, tmp_path):
    damage(
        postgres,
        "DELETE FROM headgate.documents WHERE id = 'd1'",
        "UPDATE headgate.collections SET seq = 1",
    )
    found = check_postgres(gate.store, tmp_path, repair=True)
    assert {one.repaired for one in found if "no document" in one.what or "feed" in one.what} == {
        False
    }


def test_a_role_that_sees_all_tenants_is_told(postgres, postgres_url, tmp_path):
    PostgresStore(postgres_url).close()
    store = PostgresStore(
        f"postgresql:///headgate?host={postgres.folder}&port={postgres.port}&user=postgres"
    )
    (finding,) = check_postgres(store, tmp_path)
    assert "without SUPERUSER" in finding.what
    store.close()
