"""`millgate mcp` in a process of its own, with mcp's own client and with a client that goes away."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from tests.waiting import MOST_S

from millgate import __version__
from millgate.cli import app
from millgate.errors import MissingExtra
from millgate.integrations.mcp import early

DOCS = Path(__file__).parents[2] / "docs"
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


def test_the_early_answers_are_those_of_the_library():
    spec = importlib.util.spec_from_file_location("early_answers", DOCS / "early_answers.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.record() == early.FILE.read_bytes(), "run: make docs"


def test_a_client_has_the_tools_before_anything_is_loaded(store):
    with subprocess.Popen(
        [*COMMAND, "--store", str(store)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write(HELLO + message("tools/list", 2))
        process.stdin.flush()
        hello, listed = (json.loads(process.stdout.readline())["result"] for _ in range(2))
        assert hello["protocolVersion"] == "2025-06-18"
        assert hello["serverInfo"]["version"] == __version__
        assert len(listed["tools"]) == 7
        process.stdin.write(message("tools/call", 3, name="recall", arguments={"query": "x"}))
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["id"] == 3
        assert not answer["result"]["isError"]
        process.stdin.close()
        assert process.stdout.read() == b""


class Pipe:
    """Both ends of the pipes between a client and us."""

    def __init__(self):
        (reader, self._to_us), (self._from_us, writer) = os.pipe(), os.pipe()
        self._output = os.fdopen(writer, "wb", 0)
        self.client = early.EarlyClient(os.fdopen(reader, "rb"), self._output)

    def ask(self, *lines):
        os.write(self._to_us, b"".join(lines))

    def answer(self):
        return json.loads(os.read(self._from_us, 100_000))

    def end(self):
        os.close(self._to_us)

    def close(self):
        self._output.close()
        os.close(self._from_us)


@pytest.fixture
def pipe():
    pipe = Pipe()
    yield pipe
    pipe.end()
    while pipe.client.readline():  # until it has closed its end
        pass
    pipe.close()


def test_what_is_not_known_early_waits_for_the_library(pipe):
    unknown = [
        message("initialize", 1, protocolVersion="1999-01-01", capabilities={}, clientInfo={}),
        message("tools/list", 2),
        message("tools/list", 3, cursor="x"),
        message("tools/list", [4]),
        b"nonsense\n",
        b"[1]\n",
    ]
    pipe.ask(*unknown)
    assert [pipe.client.readline() for _ in unknown] == [line.decode() for line in unknown]


def test_the_library_learns_of_an_early_initialize_and_its_answer_is_dropped(pipe):
    pipe.ask(HELLO)
    assert pipe.answer()["id"] == 1
    assert json.loads(pipe.client.readline())["method"] == "initialize"
    pipe.client.write('{"jsonrpc": "2.0", "id": 1, "result": {}}\n')
    pipe.client.write('{"jsonrpc": "2.0", "id": 1, "result": {"second": true}}\n')
    assert pipe.answer()["result"] == {"second": True}


def test_nothing_is_loaded_before_the_client_has_the_tools_or_needs_more(pipe):
    pipe.ask(HELLO)
    pipe.answer()
    assert pipe.client.readline()
    assert not pipe.client._needs_more.is_set()
    other = Pipe()
    other.ask(HELLO, message("tools/list", 2))
    other.client.wait_until_needed(60)
    other.end()
    while other.client.readline():
        pass
    other.close()


def test_a_client_of_the_stateless_protocol_discovers_us_early(pipe):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    pipe.ask(message("server/discover", 1, _meta=meta))
    found = pipe.answer()["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert (found["ttlMs"], found["cacheScope"], found["resultType"]) == (3_600_000, "public", "complete")  # fmt: skip
    pipe.ask(message("tools/list", 2, _meta=meta))
    assert pipe.answer()["result"]["ttlMs"] == 3_600_000


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
