"""`millgate mcp` in a process of its own, with mcp's own client and with a client that goes away."""

import json
import os
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters
from tests.waiting import MOST_S

from millgate import __version__
from millgate.cli import app
from millgate.errors import MissingExtra

COMMAND = [sys.executable, "-m", "millgate", "mcp"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_starts_it_asks_it_and_ends_it(store, mode):
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--store", str(store)], env=dict(os.environ)
    )
    async with Client(parameters, mode=mode) as client:
        assert client.server_info.name == "millgate"
        assert len((await client.list_tools()).tools) == 7
        answer = await client.call_tool("get_context", {"query": "how are refunds paid?"})
        assert "within 14 days" in answer.content[0].text
        bad = await client.call_tool("get_context", {"query": 3})
        assert bad.is_error
        files = {"query": "compare", "file_paths": [__file__]}
        counted = await client.call_tool("context_strategy", files)
        assert not counted.is_error


def message(method, id=None, **params):
    envelope = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(envelope if id is None else {**envelope, "id": id}).encode() + b"\n"


HELLO = message(
    "initialize", 1,
    protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"},
) + message("notifications/initialized")  # fmt: skip


@pytest.mark.slow
def test_a_client_that_goes_away_mid_call_leaves_nothing_running(store):
    with subprocess.Popen(
        [*COMMAND, "--store", str(store)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert b"millgate" in process.stdout.readline()
        for id in range(2, 12):
            arguments = {"query": f"how are refunds paid? {id}"}
            process.stdin.write(message("tools/call", id, name="get_context", arguments=arguments))
        process.stdin.close()
        process.stdout.close()
        assert process.wait(MOST_S) is not None
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("form", ["text", "both"])
def test_standard_output_carries_the_protocol_and_nothing_else(store, form):
    with subprocess.Popen(
        [*COMMAND, "--store", str(store), "--result", form],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write(HELLO + message("tools/list", 2))
        process.stdin.flush()
        hello, listed = (json.loads(process.stdout.readline())["result"] for _ in range(2))
        assert hello["protocolVersion"] == "2025-06-18"
        assert hello["serverInfo"]["version"] == __version__
        assert len(listed["tools"]) == 7
        assert ("outputSchema" in listed["tools"][0]) is (form == "both")
        process.stdin.write(message("tools/call", 3, name="recall", arguments={"query": "x"}))
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["id"] == 3
        assert not answer["result"]["isError"]
        process.stdin.close()
        assert process.stdout.read() == b""


@pytest.mark.slow
def test_what_is_no_message_is_answered_with_an_error_and_the_next_is_served(store):
    sent = HELLO + b"nonsense\n" + b'{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n'
    done = subprocess.run(
        [*COMMAND, "--store", str(store)],
        input=sent,
        capture_output=True,
        timeout=MOST_S,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert {answer.get("id") for answer in answers} >= {1}


def test_without_the_package_the_pip_line_is_named(store, monkeypatch):
    for name in list(sys.modules):
        if name.startswith("millgate.integrations.mcp.") or name.split(".")[0] == "mcp":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[mcp\]'"):
        app.main(["mcp", "--store", str(store)], standalone_mode=False)
