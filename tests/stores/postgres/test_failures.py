"""What is wrong with a server is said with the SQL that mends it, and without the password."""

import logging
import traceback

import psycopg
import pytest
from tests.postgres_server import PASSWORD

from millgate.errors import LimitError, NotReady, StoreError
from millgate.gateway import Millgate
from millgate.stores.postgres.address import parse_address
from millgate.stores.postgres.failures import (
    is_coming_back,
    refuse_old_server,
    refuse_other_encoding,
    translate,
)
from millgate.stores.postgres.store import PostgresStore
from millgate.testing.samples import document


def refusal(url):
    with pytest.raises(StoreError) as caught:
        PostgresStore(url)
    said = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in said
    assert "s3cret" not in said
    return caught.value


def test_a_wrong_password_a_missing_role_and_a_missing_database_are_told(postgres, postgres_url):
    assert "ALTER ROLE gate PASSWORD" in str(refusal(postgres_url.replace("s3cret", "wrong")))
    login, _, place = postgres_url.rpartition("@")
    error = refusal(f"{login}@{place.replace('/millgate', '/nowhere')}")
    assert "CREATE DATABASE nowhere OWNER gate" in error.hint


def test_nobody_at_that_port_may_come_back(postgres_url):
    gone = "postgresql://gate:s3cret@127.0.0.1:1/millgate?timeout_s=0.1"
    error = refusal(gone)
    assert isinstance(error, NotReady)
    assert "listens there" in error.hint
    assert "check the host" in refusal("postgresql://gate:s3cret@nowhere.invalid/millgate").hint


def test_missing_rights_are_told_with_the_grants(postgres, postgres_url):
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        admin.execute("CREATE ROLE guest LOGIN PASSWORD 's3cret'")
        admin.execute("CREATE DATABASE bare")
    guest = f"postgresql://guest:s3cret@127.0.0.1:{postgres.port}"
    try:
        error = refusal(f"{guest}/bare")
        assert "GRANT CREATE ON DATABASE bare TO guest" in error.hint
        PostgresStore(postgres_url).close()
        error = refusal(f"{guest}/millgate")
        assert error.hint.endswith("owns the tables, run: millgate store migrate --role guest")
        with psycopg.connect(postgres.admin, dbname="millgate", autocommit=True) as admin:
            admin.execute("GRANT USAGE ON SCHEMA millgate TO guest")
            admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA millgate TO guest")
        reader = PostgresStore(f"{guest}/millgate")
        with pytest.raises(StoreError, match="millgate store migrate --role guest"):
            reader.put("t", [document("a", "x")])
        with (
            pytest.raises(StoreError, match="address of the role that owns"),
            reader.session() as it,
        ):
            it.execute("DROP TABLE millgate.chunks")
        reader.close()
    finally:
        with psycopg.connect(postgres.admin, dbname="millgate", autocommit=True) as admin:
            admin.execute("DROP OWNED BY guest")
            admin.execute("DROP DATABASE bare")
            admin.execute("DROP ROLE guest")


def test_an_old_server_is_refused():
    address = parse_address("postgresql://gate:s3cret@old/millgate")
    with pytest.raises(StoreError, match="is PostgreSQL 14; Millgate needs 15"):
        refuse_old_server(address, 140_011)
    refuse_old_server(address, 150_000)


def test_a_database_that_cannot_hold_every_text_is_refused():
    address = parse_address("postgresql://me@db/kb")
    with pytest.raises(StoreError, match="is SQL_ASCII, which cannot hold every text"):
        refuse_other_encoding(address, "SQL_ASCII")
    refuse_other_encoding(address, "UTF8")
    refuse_other_encoding(address, None)


def test_names_that_are_too_long_for_an_index_are_refused_whole(postgres_url):
    store = PostgresStore(postgres_url)
    import random

    name = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1000))
    with pytest.raises(LimitError, match="2,600 bytes"):
        store.put(name, [document(name, "x", collection=name)])
    assert list(store.collections(name)) == []
    store.close()


def test_the_password_is_in_no_log_line_trace_or_text_of_an_open_gate(
    postgres_url, tmp_path, caplog
):
    caplog.set_level(logging.DEBUG)
    with Millgate.open(f"{postgres_url}?cache={tmp_path}") as gate:
        gate.add([{"id": "a", "text": "Refunds take 14 days."}])
        context = gate.context("how long do refunds take?")
        shown = f"{gate!r} {gate.store!r} {gate.settings!r} {gate.trace(context.trace.id)!r} {vars(gate.store)!r}"
    for name in tmp_path.rglob("*"):
        shown += name.read_text(errors="replace") if name.is_file() else ""
    assert "s3cret" not in shown + caplog.text


def test_indexes_lie_in_the_cache_of_the_user_if_the_address_names_no_folder(
    postgres_url, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    with Millgate.open(postgres_url) as gate:
        assert (tmp_path / ".cache/millgate" / gate.store.id).is_dir()


def test_a_pooler_that_mixes_up_prepared_statements_is_told_of(postgres_url):
    store = PostgresStore(postgres_url)
    with pytest.raises(StoreError, match="prepared_statements=0"), store._pool.session() as one:
        one.execute("EXECUTE nobody_prepared_this")
    store.close()


def test_without_prepared_statements_none_is_made(postgres_url):
    store = PostgresStore(f"{postgres_url}?prepared_statements=0")
    for _ in range(10):
        store.head("t", "main")
    with store._pool.session() as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    store.close()


@pytest.mark.parametrize(
    "stopping", [psycopg.errors.AdminShutdown, psycopg.errors.CrashShutdown, psycopg.errors.CannotConnectNow]
)  # fmt: skip
def test_a_server_that_stops_in_the_middle_of_a_login_may_come_back(stopping):
    assert is_coming_back(stopping("terminating connection due to administrator command"))
    assert not is_coming_back(psycopg.errors.InvalidPassword("no"))


@pytest.mark.parametrize(
    "lost",
    [
        psycopg.errors.ConnectionException,
        psycopg.errors.ConnectionFailure,
        psycopg.errors.SqlclientUnableToEstablishSqlconnection,
        psycopg.errors.CannotConnectNow,
    ],
)
def test_a_worker_that_cannot_be_reached_is_not_ready_and_not_a_store_that_knows_nothing(lost):
    address = parse_address("postgresql://gate:s3cret@coordinator/millgate")
    said = "connection to the remote node app@10.0.0.2:5432 failed"
    error = translate(address, lost(said))
    assert isinstance(error, NotReady)
    assert error.retry_after == 1.0
    assert said in error.message
