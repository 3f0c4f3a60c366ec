"""The check of a PostgreSQL store finds what does not fit together, and mends what is derived."""

import pytest

from millgate.gateway import Millgate
from millgate.operations.check import check_store
from millgate.stores.postgres.store import PostgresStore


@pytest.fixture
def gate(gateway_url, tmp_path):
    with Millgate.open(f"{gateway_url}?cache={tmp_path}") as gate:
        gate.add([{"id": f"d{n}", "text": f"Refund {n} takes {n} days."} for n in range(20)])
        gate.context("how long does refund 3 take?")
        yield gate


def damage(gate, *statements):
    for statement in statements:
        gate.store.execute(gate.tenant, statement)


def test_a_sound_store_has_no_findings(gate, tmp_path):
    assert check_store(gate.store, tmp_path) == []


def test_what_is_wrong_is_found_and_mended(gate, tmp_path):
    damage(
        gate,
        "UPDATE millgate.collections SET chunks = 3 WHERE tenant = 'default'",
        "INSERT INTO millgate.attachments (tenant, collection, id, kind, value)"
        " VALUES ('default', 'main', 'gone', 'embedding/x/2', decode('00', 'hex'))",
        "INSERT INTO millgate.removed SELECT tenant, collection, id, 1 FROM millgate.chunks"
        " WHERE tenant = 'default' AND id = 'd2' ON CONFLICT DO NOTHING",
    )
    found = [one.what for one in check_store(gate.store, tmp_path)]
    for words in (
        "size of default/main",
        "chunk that is gone",
        "that is there",
    ):
        assert any(words in one for one in found), words
    assert all(one.repaired for one in check_store(gate.store, tmp_path, repair=True))
    assert check_store(gate.store, tmp_path) == []


def test_what_cannot_be_mended_is_told(gate, tmp_path):
    damage(
        gate,
        "DELETE FROM millgate.documents WHERE tenant = 'default' AND id = 'd1'",
        "UPDATE millgate.collections SET seq = 1 WHERE tenant = 'default'",
    )
    found = check_store(gate.store, tmp_path, repair=True)
    assert {one.repaired for one in found if "no document" in one.what or "feed" in one.what} == {
        False
    }


def test_a_role_that_sees_all_tenants_is_told(postgres, postgres_url):
    PostgresStore(postgres_url).close()
    store = PostgresStore(
        f"postgresql:///millgate?host={postgres.folder}&port={postgres.port}&user=postgres"
    )
    assert "without SUPERUSER" in store.policy_advice()
    store.close()


def test_an_owner_above_the_policies_of_its_tables_is_told_to_give_gateways_another_role(
    gateway_url, postgres_url
):
    owner, gateway = PostgresStore(postgres_url), PostgresStore(gateway_url)
    sql = "SELECT relforcerowsecurity FROM pg_class WHERE oid = 'millgate.chunks'::regclass"
    with owner.session() as connection:
        (forced,) = connection.execute(sql).fetchone()
        connection.execute("ALTER TABLE millgate.chunks NO FORCE ROW LEVEL SECURITY")
    try:
        assert "millgate store migrate --role NAME" in owner.policy_advice()
        assert not gateway.policy_advice()
    finally:
        if forced:
            with owner.session() as connection:
                connection.execute("ALTER TABLE millgate.chunks FORCE ROW LEVEL SECURITY")
        gateway.close()
    assert not forced or not owner.policy_advice()
    owner.close()
