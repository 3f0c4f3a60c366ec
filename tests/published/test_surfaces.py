"""What the designs promise to callers, as the library, the command line, HTTP and MCP keep it."""

import json
import logging

import pytest
from click.testing import CliRunner
from mcp import Client
from tests.service.clients import connected

from millgate.cli import app
from millgate.gateway import Millgate
from millgate.integrations.mcp.server import build
from millgate.integrations.mcp.tools import Access
from millgate.keys import SCOPES
from millgate.pipeline.stages.strategy import context_strategy
from millgate.service.app import create
from millgate.types import ContextBudget

ROWS = [
    {"id": "refunds", "text": "Refunds are paid within 14 days to the card."},
    {"id": "parcels", "text": "Parcels with refunds are sent by rail within two days."},
]
QUERY = "how are refunds paid?"
LOG_KEYS = {
    "session_id", "candidate_count", "penalized_count", "exact_duplicate_count", "expansion_triggered",
    "novel_result_count",
}  # fmt: skip
OTHER_NAMES = {"session", "candidates", "penalized", "exact_duplicates", "expansion", "novel"}


@pytest.fixture
def gate(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add(ROWS)
        yield gate


def run(*arguments, **given):
    done = CliRunner().invoke(app, list(arguments), **given)
    assert done.exit_code == 0, done.output
    return done


def strategy_tool(gate):
    access = Access(gate, frozenset(SCOPES), local=True)
    return Client(build(lambda _: access))


# -- the keys of the log -------------------------------------------------------------------------


def check_log_line(line):
    assert line.keys() >= LOG_KEYS
    assert line.keys().isdisjoint(OTHER_NAMES)
    assert line["candidate_count"] == 2
    assert line["exact_duplicate_count"] == 1
    assert line["novel_result_count"] <= 1 <= line["penalized_count"]
    assert isinstance(line["expansion_triggered"], bool)


def last_line(path):
    return json.loads((path / "kb" / "retrieval-performance.log").read_text().splitlines()[-1])


def test_the_library_logs_the_published_keys(gate, tmp_path):
    gate.context(QUERY, window=[ROWS[0]["text"]], session="s1")
    check_log_line(last_line(tmp_path))
    assert last_line(tmp_path)["session_id"] == "s1"


def test_the_command_line_logs_the_published_keys(gate, tmp_path):
    gate.close()
    store = str(tmp_path / "kb")
    run("context", QUERY, "--store", store, "--window", "-", input=ROWS[0]["text"])
    check_log_line(last_line(tmp_path))


async def test_the_service_logs_the_published_keys(gate, caplog):
    body = {"query": QUERY, "session_id": "s1", "current_window_text": ROWS[0]["text"]}
    with caplog.at_level(logging.INFO, "millgate.request"):
        async with connected(create(gate)) as client:
            await client.post("/v1/context", json=body)
    line = json.loads(caplog.records[-1].message)
    check_log_line(line)
    assert line["session_id"] == "s1"


async def test_the_id_of_a_span_is_a_string(gate):
    async with connected(create(gate)) as client:
        body = {"current_window_blocks": [row["text"] for row in ROWS]}
        payload = (await client.post("/v1/fingerprint", json=body)).json()
        assert [span["span_id"] for span in payload["spans"]] == ["0", "1"]
        asked = {"query": QUERY, "current_window_fingerprint": payload}
        assert not (await client.post("/v1/context", json=asked)).json()["chunks"]
        for number, span in enumerate(payload["spans"]):  # as callers have stored it until now
            span["span_id"] = number
        assert not (await client.post("/v1/context", json=asked)).json()["chunks"]


# -- the size of content -------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes.txt").write_bytes(b"x" * 4000)
    return ["~/notes.txt", "~/gone.txt"]


def test_the_library_measures_files_at_home_and_names_those_it_skips(files):
    answer = context_strategy("summarize this", file_paths=files)
    assert answer["content_tokens"] == 1000
    assert answer["skipped_files"] == ["~/gone.txt: no such file"]


def test_the_command_line_measures_files_at_home_and_names_those_it_skips(files):
    options = [part for path in files for part in ("--file", path)]
    answer = json.loads(run("strategy", "summarize this", *options, "--json").stdout)
    assert (answer["content_tokens"], len(answer["skipped_files"])) == (1000, 1)
    assert "not counted: ~/gone.txt: no such file" in run("strategy", "x", *options).stderr


async def test_mcp_measures_files_at_home_and_names_those_it_skips(gate, files):
    async with strategy_tool(gate) as client:
        asked = {"query": "summarize this", "file_paths": files}
        answer = await client.call_tool("context_strategy", asked)
    assert "1,000 tokens" in answer.content[0].text
    assert "not counted: ~/gone.txt: no such file" in answer.content[0].text


async def test_a_count_of_zero_leaves_it_to_the_hint(gate):
    asked = {"query": "summarize this", "char_count": 0, "content_size_hint": "huge"}
    assert context_strategy(**asked)["content_tokens"] == 500_000
    done = run("strategy", "summarize this", "--chars", "0", "--size", "huge", "--json")
    assert json.loads(done.stdout)["content_tokens"] == 500_000
    async with connected(create(gate)) as client:
        answer = (await client.post("/v1/strategy", json=asked)).json()
        assert (answer["content_tokens"], answer["skipped_files"]) == (500_000, [])
    async with strategy_tool(gate) as client:
        told = await client.call_tool("context_strategy", asked)
        assert "500,000" in told.content[0].text


# -- how full the window is ----------------------------------------------------------------------


async def test_mcp_can_be_told_how_full_the_window_is(gate):
    full = {"context_length": 10_000, "used_tokens": 9_900}
    expected = gate.context(QUERY, budget=4000, context_budget=ContextBudget(**full))
    assert not expected.chunks
    async with strategy_tool(gate) as client:
        schema = next(
            tool for tool in (await client.list_tools()).tools if tool.name == "get_context"
        ).input_schema["properties"]
        assert all(schema[name]["description"] for name in full)
        plenty = await client.call_tool("get_context", {"query": QUERY})
        assert "14 days" in plenty.content[0].text
        half = {"query": QUERY, "context_length": 10_000, "used_tokens": 5_000}
        assert "14 days" in (await client.call_tool("get_context", half)).content[0].text
        told = await client.call_tool("get_context", {"query": QUERY, **full})
        assert "<ref" not in told.content[0].text
        assert "95%" in told.content[0].text
