"""The commands around the service: keys, why, replay."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from millgate.cli import app
from millgate.gateway import Millgate
from millgate.keys import digest


@pytest.fixture
def run(tmp_path):
    store = str(tmp_path / "kb")

    def call(*args, as_json=True):
        line = [*args, "--store", store, *(["--json"] if as_json else [])]
        result = CliRunner().invoke(app, line, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if as_json else result.stdout

    with Millgate.open(store) as gate:
        gate.add({"id": f"c{n}", "text": f"refund number {n} by card"} for n in range(3))
    call.store = store
    return call


def test_a_key_is_shown_once_and_kept_as_a_hash(run):
    made = run("keys", "create", "--tenant", "acme", "--scope", "read", "--name", "bot")
    assert made["key"].startswith("mg_")
    with Millgate.open(run.store) as gate:
        (kept,) = gate.for_tenant("acme").keys.list_keys()
    assert kept.digest == digest(made["key"])
    assert made["key"] not in str(kept)
    (listed,) = run("keys", "list")
    assert (listed["id"], listed["scopes"], listed["revoked"]) == (made["id"], ["read"], None)
    assert run("keys", "revoke", made["id"], "--tenant", "acme") == {"revoked": made["id"]}
    assert run("keys", "list")[0]["revoked"] is not None
    assert "revoked" in run("keys", "list", as_json=False)


def test_why_and_replay_speak_of_a_stored_trace(run):
    made = run("context", "refund card", "--k", "1")
    lost = made["report"]["evicted_ids"][0]
    told = run("why", made["trace"], lost)
    assert told["stage"] == "gate"
    ((name, now),) = [(change["name"], change["now"]) for change in told["changes"]]
    assert name == "k"
    again = run("replay", made["trace"], f"{name}={now}")
    assert lost in again["entered"]
    assert f"k = {now}" in run("why", made["trace"], lost, as_json=False)
    fell = {row["chunk"]: row["stage"] for row in run("why", made["trace"])["left_out"]}
    assert fell == dict.fromkeys(made["report"]["evicted_ids"], "gate")
    assert f"gate       {lost}: " in run("why", "last", as_json=False)
    assert f"+ {lost}" in run("replay", made["trace"], f"{name}={now}", as_json=False)
    assert "the same chunks" in run("replay", made["trace"], as_json=False)
    assert [row["id"] for row in run("why", "--list")] == [made["trace"]]
    assert run("why", made["trace"])["fates"][0]["kept"]
    assert made["trace"][:8] in run("why", "--list", as_json=False)
    assert run("why")["id"] == made["trace"]
    assert "beyond k" in run("why", made["trace"], as_json=False)


def test_without_the_extra_serve_names_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['fastapi'] = None; from millgate.cli import main; main(['serve'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install '.[service]'" in done.stderr
