"""`millgate mcp`: what install and uninstall print and change, and with what the server is started."""

import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_an_entry_is_added_once_and_removed_once_and_each_says_which(run, home):
    where = ("--client", "cursor")
    file = home / ".cursor" / "mcp.json"
    assert run("mcp", "install", *where)[1] == f"added millgate to {file}; restart Cursor to use it\n"  # fmt: skip
    assert run("mcp", "install", *where)[1] == f"millgate is in {file} already\n"
    assert run("mcp", "uninstall", *where)[1] == f"removed millgate from {file}\n"
    assert run("mcp", "uninstall", *where)[1] == f"millgate is not in {file}\n"


def test_json_says_whether_the_file_changed(run, home):
    for command, changed in (("install", True), ("install", False), ("uninstall", True), ("uninstall", False)):  # fmt: skip
        told = json.loads(run("mcp", command, "--client", "cursor", "--json")[1])
        assert told == {"client": "cursor", "path": str(home / ".cursor" / "mcp.json"), "changed": changed}  # fmt: skip


def test_print_shows_the_entry_and_changes_nothing(run, home):
    code, out, err = run("mcp", "install", "--client", "cursor", "--print", "--collection", "notes")
    assert code == 0
    (entry,) = json.loads(out)["mcpServers"].values()
    assert entry["args"][-2:] == ["--collection", "notes"]
    assert err.splitlines()[-1] == f"this belongs into {home / '.cursor' / 'mcp.json'}"
    assert not (home / ".cursor").exists()


def test_a_server_that_could_not_start_is_not_installed(run, home, monkeypatch):
    monkeypatch.setattr("millgate.cli.mcp.find_spec", lambda name: None)
    served, installed = run("mcp"), run("mcp", "install", "--client", "cursor")
    assert served[0] == installed[0] == 2
    assert installed[2] == served[2]
    assert "pip install '.[mcp]'" in installed[2]
    assert not (home / ".cursor").exists()


@pytest.mark.parametrize(("scope", "portable"), [("user", False), ("project", True)])
def test_a_project_shares_a_command_that_works_on_every_machine(run, scope, portable):
    out = run("mcp", "install", "--client", "claude", "--scope", scope, "--store", "kb", "--print")[1]  # fmt: skip
    (entry,) = json.loads(out)["mcpServers"].values()
    assert (entry["command"] == "millgate") is portable
    assert ("kb" in entry["args"]) is portable


@pytest.mark.parametrize(("name", "good"), [("my-gate_2", True), ("my gate", False), ("--", False), ("gäte", False)])  # fmt: skip
def test_a_name_is_letters_digits_hyphens_and_underscores(run, name, good):
    code, _, err = run("mcp", "install", "--client", "cursor", f"--name={name}", "--print")
    assert (code == 0) is good
    assert ("cannot be used" in err) is not good


def test_the_server_gets_the_collection(run, monkeypatch):
    server = pytest.importorskip("millgate.integrations.mcp.server")
    served = []
    monkeypatch.setattr(server, "serve", lambda gate, **how: served.append(how))
    code, _, err = run("mcp", "--store", "kb", "--collection", "notes")
    assert code == 0
    assert served == [{"collection": "notes", "client": None}]
    assert "waiting" not in err, "nobody sits at this terminal"


def test_at_a_terminal_it_says_that_it_waits(run, monkeypatch):
    server = pytest.importorskip("millgate.integrations.mcp.server")
    monkeypatch.setattr(server, "serve", lambda gate, **how: None)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert "waiting for an MCP client on stdin" in run("mcp", "--store", "kb")[2]
