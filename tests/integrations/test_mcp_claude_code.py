"""The Claude Code plugin: its files are what Claude Code reads, and its hook adds context or stays out of the way."""

import json
import os
import shlex
import socket
import subprocess
from pathlib import Path

from click.testing import CliRunner
from tests.service.clients import served
from tests.waiting import MOST_S

from millgate import __version__
from millgate.cli import app
from millgate.cli.mcp import plugin_folder
from millgate.gateway import Millgate
from millgate.settings import Settings

PROMPT = {
    "session_id": "s1",
    "transcript_path": "/x.jsonl",
    "cwd": "/home/me/project",
    "hook_event_name": "UserPromptSubmit",
    "prompt": 'how are "refunds"\npaid?',
}


def run_hook(url, prompt=PROMPT, **variables):
    environment = {**os.environ, "MILLGATE_URL": url, "MILLGATE_HOOK_S": "20", **variables}
    done = subprocess.run(
        ["/bin/sh", plugin_folder() / "scripts" / "add-context.sh"],
        input=json.dumps(prompt).encode(),
        env=environment,
        capture_output=True,
        timeout=MOST_S,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    return done.stdout.decode()


def added(output):
    data = json.loads(output)["hookSpecificOutput"]
    assert data["hookEventName"] == "UserPromptSubmit"
    return data["additionalContext"]


def test_the_folder_holds_what_claude_code_reads():
    folder = plugin_folder()
    assert CliRunner().invoke(app, ["mcp", "plugin-path"]).stdout.strip() == str(folder)
    manifest = json.loads((folder / ".claude-plugin" / "plugin.json").read_text())
    assert (manifest["name"], manifest["version"]) == ("millgate", __version__)
    (listed,) = json.loads((folder / ".claude-plugin" / "marketplace.json").read_text())["plugins"]
    assert (listed["name"], listed["source"]) == ("millgate", "./")
    servers = json.loads((folder / ".mcp.json").read_text())["mcpServers"]
    assert servers["millgate"] == {"command": "millgate", "args": ["mcp"]}
    hooks = json.loads((folder / "hooks" / "hooks.json").read_text())["hooks"]
    ((hook,),) = (entry["hooks"] for entry in hooks["UserPromptSubmit"])
    shell, script = shlex.split(hook["command"].replace("${CLAUDE_PLUGIN_ROOT}", str(folder)))
    assert shell == "sh"
    assert Path(script).is_file()


def test_a_prompt_gets_context_from_a_running_service(store):
    with served(Settings(store=str(store), service={"port": 0})) as (url, _):
        assert "within 14 days" in added(run_hook(url))
        assert run_hook(url, {**PROMPT, "prompt": "xylophone quartz vanadium"}) == ""
        assert run_hook(url, {**PROMPT, "prompt": "/compact"}) == ""
        assert run_hook(url, {"other": "event"}) == ""
        assert run_hook(url, MILLGATE_HOOK="off") == ""


def test_a_key_is_sent_if_the_service_wants_one(store):
    with Millgate.open(store) as gate:
        key = gate.keys.create(["read"]).token
    with served(Settings(store=str(store), service={"port": 0})) as (url, _):
        assert run_hook(url) == ""
        assert "within 14 days" in added(run_hook(url, MILLGATE_KEY=key))


def test_without_a_service_the_prompt_goes_on():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert run_hook(address) == ""


def test_a_service_that_hangs_does_not_hold_the_prompt():
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        address = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        assert run_hook(address, MILLGATE_HOOK_S="") == ""


def test_without_curl_the_prompt_goes_on(tmp_path):
    assert run_hook("http://127.0.0.1:9", PATH=str(tmp_path)) == ""
