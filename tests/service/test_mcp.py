"""/mcp of a real service: mcp's own client, keys, scopes, tenants, origins, and clients that go away."""

import asyncio
import socket
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from tests.service.clients import connected, served, until
from tests.service.conftest import ROWS
from tests.waiting import MOST_S

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.routes import mcp as mount
from millgate.settings import Settings

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture
def store(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add(ROWS)
    return tmp_path / "kb"


@pytest.fixture
def url(store):
    with served(Settings(store=str(store), service={"port": 0})) as (address, _):
        yield f"{address}/mcp"


@asynccontextmanager
async def client_with(url, key):
    headers = {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=MOST_S) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_lists_calls_and_reads(url, mode):
    async with Client(url, mode=mode) as client:
        assert client.server_info.name == "millgate"
        assert len((await client.list_tools()).tools) == 7
        answer = await client.call_tool("get_context", {"query": "how are refunds paid?"})
        assert answer.structured_content is None
        assert "within 14 days" in answer.content[0].text
        trace = answer.content[0].text.rpartition("trace: ")[2]
        read = await client.read_resource(f"millgate://traces/{trace}")
        assert trace in read.contents[0].text
        assert (await client.call_tool("recall", {})).is_error
        with pytest.raises(MCPError):
            await client.call_tool("none", {})


async def test_a_key_decides_tenant_and_scope(store):
    with Millgate.open(store) as gate:
        alder = gate.for_tenant("alder")
        alder.add([{"id": "secret", "text": "The safe of alder opens at nine."}])
        reader = alder.keys.create(["read"]).token
        other = gate.for_tenant("birch").keys.create(["read", "write"]).token
        reviewer = alder.keys.create(["review"]).token
    with served(Settings(store=str(store), service={"port": 0})) as (address, _):
        url = f"{address}/mcp"
        ask = {"query": "when does the safe of alder open?"}
        async with client_with(url, reader) as client:
            found = await client.call_tool("get_context", ask)
            assert "opens at nine" in found.content[0].text
            refused = await client.call_tool("remember", {"content": "A fact."})
            assert "scope write" in refused.content[0].text
            trace = found.content[0].text.rpartition("trace: ")[2]
        async with client_with(url, other) as client:
            assert "nine" not in (await client.call_tool("get_context", ask)).content[0].text
            assert (await client.call_tool("why", {"trace": trace})).is_error
            assert not (await client.call_tool("remember", {"content": "A fact."})).is_error
        async with httpx2.AsyncClient(timeout=MOST_S) as http:
            for headers, status in [
                ({}, 401),
                ({"authorization": "Bearer mg_" + "a" * 43}, 401),
                ({"authorization": f"Bearer {reviewer}"}, 403),
                ({"authorization": f"Bearer {reader}", "origin": "https://evil.example"}, 403),
            ]:
                answer = await http.post(url, json=PING, headers=ACCEPT | headers)
                assert answer.status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 401),
        ({"host": "evil.example"}, 401),
        ({"origin": "null"}, 401),
        ({"accept": "text/html"}, 406),
    ],
)
async def test_a_foreign_page_is_refused(url, headers, status):
    async with httpx2.AsyncClient(timeout=MOST_S) as http:
        answer = await http.post(url, json=PING, headers=ACCEPT | headers)
    assert answer.status_code == status


async def test_a_message_that_would_swell_is_refused(url):
    message = b'{"jsonrpc": "2.0", "id": 1, "method": "%b"}'
    async with httpx2.AsyncClient(timeout=MOST_S) as http:
        for method in (b"x" * (9 << 20), b'"' + b", []" * 500_001):
            answer = await http.post(url, content=message % method, headers=ACCEPT)
            assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b'{"jsonrpc": "1.0"}', b"\xff"])
async def test_what_is_no_message_is_a_client_error(url, body):
    async with httpx2.AsyncClient(timeout=MOST_S) as http:
        for version in ("2025-06-18", "2026-07-28", "1999-01-01"):
            headers = ACCEPT | {"mcp-protocol-version": version}
            answer = await http.post(url, content=body, headers=headers)
            assert 400 <= answer.status_code < 500
        assert (await http.get(url, headers=ACCEPT)).status_code == 405


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_client_that_goes_away_mid_call_leaves_nothing_running(store, monkeypatch, version):
    """The call is seen to begin, its socket closes, and it is seen to end."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def endless(self, *args, **kwargs):
        began.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    monkeypatch.setattr(Millgate, "acontext", endless)
    with served(Settings(store=str(store), service={"port": 0})) as (address, _):
        host, port = address.removeprefix("http://").split(":")
        await asyncio.to_thread(_call_and_leave, host, int(port), version, began)
        await asyncio.to_thread(until, ended.is_set)


def _call_and_leave(host, port, version, began):
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "get_context", "arguments": {"query": "refunds"}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = ACCEPT | {"mcp-protocol-version": version, "host": f"{host}:{port}"}
    headers |= {"mcp-method": "tools/call", "mcp-name": "get_context"}
    request = httpx2.Request("POST", f"http://{host}:{port}/mcp", json=body, headers=headers)
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    with socket.create_connection((host, port), timeout=MOST_S) as connection:
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + request.content)
        until(began.is_set)


async def test_without_the_package_the_pip_line_is_named(store, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name="mcp")

    monkeypatch.setattr(mount, "import_module", missing)
    with Millgate.open(store) as gate:
        async with connected(create(gate), raising=False) as http:
            answer = await http.post("/mcp", json=PING, headers=ACCEPT)
    assert ".[mcp]" in answer.json()["hint"]
