"""The command line reads without leaving anything, answers programs in JSON, and says what is wrong in two lines."""

import hashlib
import json
import subprocess
import sys

import pytest
from tests.waiting import MOST_S

from millgate import cli

READING = [
    ["status"],
    ["context", "refunds"],
    ["why", "last"],
    ["why", "--list"],
    ["costs"],
    ["store", "list"],
    ["facts", "list"],
    ["facts", "recall", "refunds"],
    ["graph", "show", "Ada"],
    ["reviews", "list"],
    ["keys", "list"],
]
SESSION = [
    {"role": "user", "content": "Why does the build fail?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "build", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "error: no rule for x"},
]  # fmt: skip
OFFLINE = """
import sys
sys.addaudithook(lambda event, _: sys.exit(f"network: {event}") if event.startswith("socket.") else None)
from millgate.cli import main
main(sys.argv[1:])
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*args):
        with pytest.raises(SystemExit) as ended:
            cli.main(list(args))
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return call


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_command_that_only_reads_makes_no_store_and_names_what_is_missing(run, tmp_path, args):
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    error, hint = err.splitlines()
    assert error.startswith("error: there is no store")
    assert hint.startswith("hint: ")
    assert list(tmp_path.iterdir()) == []


def test_json_is_all_that_a_program_gets(run, tmp_path):
    (tmp_path / "notes.md").write_text("Refunds are paid within 14 days.")
    assert run("add", "notes.md")[0] == 0
    assert run("context", "refunds")[0] == 0
    for args in READING:
        code, out, err = run(*args, "--json")
        assert code == 0, err
        json.loads(out)


def test_xray_reads_a_session_without_network_and_writes_one_page(tmp_path):
    session = tmp_path / "session.jsonl"
    session.write_text("\n".join(map(json.dumps, SESSION)))
    before = hashlib.sha256(session.read_bytes()).digest()
    line = [sys.executable, "-c", OFFLINE, "xray", str(session)]
    environ = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=MOST_S, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert hashlib.sha256(session.read_bytes()).digest() == before
    (page,) = {*tmp_path.iterdir()} - {session}
    assert page.suffix == ".html"
