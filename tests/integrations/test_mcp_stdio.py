"""`headgate mcp` in a process of its own, with mcp's own client and with a client that goes away."""

import json
import os
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters

from headgate.cli import app
from headgate.errors import MissingExtra

COMMAND = [sys.executable, "-m", "headgate", "mcp"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_starts_it_asks_it_and_ends_it(store, mode):
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--store", str(store)], env=dict(os.environ)
    )
    async with Client(parameters, mode=mode) as client:
        assert client.server_info.name == "headgate"
        assert len((await client.list_tools()).tools) == 6
        answer = await client.call_tool("get_context", {"query": "how are refunds paid?"})
        assert "within 14 days" in answer.structured_content["text"]
        bad = await client.call_tool("get_context", {"query": 3})
        assert bad.is_error
        files = {"query": "compare", "file_paths": [__file__]}
        counted = await client.call_tool("context_strategy", files)
        assert counted.structured_content["content_tokens"] > 100


def message(method, id=None, **params):
    envelope = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(envelope if id is None else {**envelope, "id": id}).encode() + b"\n"


HELLO = message(
    "initialize", 1,
    protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"},
) + message("notifications/initialized")  # fmt: skip


def test_a_client_that_goes_away_mid_call_leaves_nothing_running(store):
    with subprocess.Popen(
        [*COMMAND, "--store", str(store)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert b"headgate" in process.stdout.readline()
        for id in range(2, 12):
            arguments = {"query": f"how are refunds paid? {id}"}
            process.stdin.write(message("tools/call", id, name="get_context", arguments=arguments))
        process.stdin.close()
        process.stdout.close()
        assert process.wait(30) is not None
        assert b"Traceback" not in process.stderr.read()


def test_what_is_no_message_is_answered_with_an_error_and_the_next_is_served(store):
    sent = HELLO + b"nonsense\n" + b'{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n'
    done = subprocess.run(
        [*COMMAND, "--store", str(store)], input=sent, capture_output=True, timeout=60, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert {answer.get("id") for answer in answers} >= {1}


def test_without_the_package_the_pip_line_is_named(store, monkeypatch):
    for name in list(sys.modules):
        if name.startswith("headgate.integrations.mcp.") or name.split(".")[0] == "mcp":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtra, match=r"headgate\[mcp\]"):
        app.main(["mcp", "--store", str(store)], standalone_mode=False)
