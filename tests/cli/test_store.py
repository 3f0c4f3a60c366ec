"""`millgate store ...` and the other commands over a PostgreSQL store."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg
import pytest
from tests.postgres_server import GATEWAY, gateway_role, has_distributed_tables

from millgate.gateway import Millgate
from millgate.stores.sqlite import connection


@pytest.fixture
def url(postgres_url, tmp_path):
    return f"{postgres_url}?cache={tmp_path / 'cache'}"


@pytest.fixture
def fresh(postgres, tmp_path):
    """The address of a database without a store."""
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS empty")
        connection.execute("CREATE DATABASE empty OWNER gate")
    yield f"{postgres.url.replace('/millgate', '/empty')}?cache={tmp_path / 'cache'}"
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE empty WITH (FORCE)")


def test_a_store_is_migrated_and_a_dry_run_changes_nothing(run, fresh):
    code, out, _ = run("store", "migrate", "--dry-run", "--store", fresh)
    assert (code, "CREATE SCHEMA" in out, "CREATE POLICY" in out) == (0, True, True)
    assert run("store", "migrate", "--dry-run", "--store", fresh)[1] == out
    code, out, _ = run("store", "migrate", "--store", fresh)
    assert (code, "steps were taken" in out, "s3cret" in out) == (0, True, False)
    assert run("store", "migrate", "--store", fresh)[1].endswith("is up to date\n")
    assert run("store", "migrate", "--store", "kb")[1] == "kb is up to date\n"


def test_a_store_is_copied_there_and_back(run, url):
    with Millgate.open("kb") as gate:
        gate.add({"id": f"p{n}", "text": f"Refund {n} is paid by card."} for n in range(20))
        gate.remember("Refunds take 14 days.")
    code, out, err = run("store", "copy", "kb", url)
    assert (code, "both stores are equal: 20 documents, 20 chunks" in out) == (0, True), out
    assert "s3cret" not in out + err
    code, out, _ = run("store", "copy", url, "back", "--json")
    assert code == 0
    assert all(line["equal"] for line in json.loads(out))
    with Millgate.open("back") as gate:
        assert "14 days" in gate.recall("refunds")[0].fact.content
    with Millgate.open(url) as gate:
        gate.add([{"id": "more", "text": "more"}])
    code, out, _ = run("store", "copy", "kb", url)
    assert (code, "differs: default documents: 20 and 21" in out) == (1, True)
    assert run("store", "copy", "nowhere", url)[0] == 2
    for twice in (("kb", "./kb"), (url, f"{url}&pool_size=3")):
        code, _, err = run("store", "copy", *twice)
        assert (code, "the same store" in err) == (2, True)


def test_status_doctor_and_export_know_a_database(run, gateway_url, postgres, tmp_path):
    url = f"{gateway_url}?cache={tmp_path / 'cache'}"
    with psycopg.connect(postgres.url) as owner:
        server = f"PostgreSQL {owner.info.server_version // 10_000}"
    run("add", "--store", url)
    with Millgate.open(url) as gate:
        gate.add({"id": f"p{n}", "text": f"Refund {n} is paid by card."} for n in range(20))
    code, out, _ = run("status", "--store", url)
    assert (code, "20" in out, server in out) == (0, True, True)
    shown = json.loads(run("status", "--store", url, "--json")[1])
    assert (shown["database_bytes"] > 0, shown["tenants"][0]["tenant"]) == (True, "default"), shown
    assert shown["tables"]["chunks"] > 0
    code, out, _ = run("doctor", "--store", url)
    assert (code, f"answers: {server}" in out, "as it should be" in out) == (0, True, True)
    assert len(run("store", "export", "--store", url)[1].splitlines()) == 20
    code, _, err = run("store", "backup", "copy", "--store", url)
    assert (code, "pg_dump" in err) == (2, True)


def test_the_password_is_shown_by_no_command(run, url, monkeypatch):
    monkeypatch.setenv("MILLGATE_STORE", url)
    wrong = url.replace("s3cret", "s3cret0")
    for command in (["config", "show"], ["config", "show", "--json"], ["doctor"], ["status"],
                    ["doctor", "--store", wrong], ["status", "--store", wrong]):  # fmt: skip
        code, out, err = run(*command)
        assert "s3cret" not in out + err, command
        assert code in (0, 1, 2)


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_distribute_says_what_is_missing(run, postgres, url, dry):
    if has_distributed_tables(postgres.url):
        code, out, _ = run("store", "distribute", *dry, "--store", url)
        assert (code, out) == (0, "all tables are distributed already\n")
        return
    code, _, err = run("store", "distribute", *dry, "--store", url)
    assert (code, "CREATE EXTENSION citus" in err) == (2, True)
    assert run("store", "distribute", *dry, "--store", "kb")[0] == 2


def test_a_role_for_gateways_gets_no_more_than_it_needs(run, postgres, url, tmp_path):
    with gateway_role(postgres) as gateway:
        here = f"{gateway}?cache={tmp_path / 'other'}"
        code, out, _ = run("store", "migrate", "--dry-run", "--role", GATEWAY, "--store", url)
        assert (code, f'GRANT USAGE ON SCHEMA millgate TO "{GATEWAY}"' in out) == (0, True)
        with Millgate.open(here) as gate:
            gate.add({"id": f"p{n}", "text": f"Refund {n} is paid by card."} for n in range(600))
            gate.remember("Refunds take 14 days.")
            assert gate.context("how is refund 3 paid?").chunks
        code, out, _ = run("doctor", "--store", here)
        assert (code, "keep them apart" in out) == (0, False)
        assert run("status", "--store", here)[0] == 0
        code, _, err = run("store", "migrate", "--role", GATEWAY, "--store", here)
        assert (code, "is the one that migrates" in err) == (2, True)
    code, _, err = run("store", "migrate", "--role", "who's", "--store", url)
    assert (code, 'CREATE ROLE "who\'s" LOGIN' in err) == (2, True)
    assert run("store", "migrate", "--role", "x", "--store", "kb")[0] == 2


class Lengths(BaseHTTPRequestHandler):
    """An endpoint whose embedding of a text is its length."""

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        rows = [{"index": n, "embedding": [len(text), 1.0]} for n, text in enumerate(texts)]
        data = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def endpoint():
    with HTTPServer(("127.0.0.1", 0), Lengths) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kept", ["sqlite", "postgres"])
def test_what_lacks_an_embedding_is_embedded(run, request, endpoint, monkeypatch, kept):
    name = request.getfixturevalue("url") if kept == "postgres" else "kb"
    with Millgate.open(name) as gate:
        gate.add({"id": f"p{n}", "text": f"Refund {n} is paid by card."} for n in range(20))
    code, _, err = run("store", "embed", "--store", name)
    assert (code, "MILLGATE_EMBED__MODEL" in err) == (2, True)
    monkeypatch.setenv("MILLGATE_EMBED__URL", endpoint)
    monkeypatch.setenv("MILLGATE_EMBED__MODEL", "tiny")
    code, out, err = run("store", "embed", "--store", name, "--json")
    found = json.loads(out)
    assert (code, found["embedded"], found["dimension"]) == (0, 20, 2)
    code, out, _ = run("store", "embed", "--store", name, "--collection", "main")
    assert (code, out.startswith("embedded 0 chunks")) == (0, True)
    assert "s3cret" not in json.dumps(found) + out + err


def test_on_a_full_disk_a_store_is_read_and_the_answer_says_that_its_trace_is_lost(
    run, monkeypatch
):
    with Millgate.open("kb") as gate:
        gate.add(["Refunds are paid by card."])
    monkeypatch.setattr(connection, "is_full", lambda folder: True)
    code, out, err = run("context", "refunds", "--store", "kb")
    assert (code, "paid by card" in out) == (0, True)
    assert "the disk is full" in err
    assert "degraded: trace: not stored" in err
    assert run("status", "--store", "kb")[0] == 0
    code, _, err = run("facts", "forget", "x", "--store", "kb")
    assert code == 2


@pytest.mark.parametrize(
    "command",
    [
        ("context", "refunds", "--store", ""),
        ("add", "", "--store", "kb"),
        ("add", ".", "--store", ""),
        ("doctor", "--store", ""),
    ],
)
def test_an_empty_name_is_an_error_and_not_the_current_folder(run, tmp_path, command):
    code, _, err = run(*command)
    assert code == 2
    assert "is empty" in err
    assert list(tmp_path.iterdir()) == []
