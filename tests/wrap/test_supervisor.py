"""The supervisor without any gateway: whose calls it takes, where they go, and what it passes on as it came."""

import asyncio
import os
import socket
import ssl
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import trustme
from aiohttp import ClientError, ClientSession, web
from aiohttp.test_utils import TestServer

from millgate.errors import UpstreamError
from millgate.service.proxy.http_client import Address, Timeouts, UpstreamRequest
from millgate.service.wire import GONE
from millgate.wrap.gateways import Gateways
from millgate.wrap.spec import GatewaySpec, redirect
from millgate.wrap.summary import Summary
from millgate.wrap.supervisor import Supervisor
from millgate.wrap.turn import Recording


class Answer:
    """A response of these parts; an exception among them is raised."""

    def __init__(self, *parts, status=200):
        self.status, self.headers, self.parts = status, [(b"x-from", b"upstream")], list(parts)
        self.closed = False

    async def read(self, tick_s=None):
        part = self.parts.pop(0) if self.parts else b""
        if isinstance(part, Exception):
            raise part
        return part

    async def close(self):
        self.closed = True


class Upstream:
    """Answers everything alike, and remembers what it was asked."""

    def __init__(self, *parts, status=200, error=None):
        self.parts, self.status, self.error, self.asked = parts, status, error, []
        self.answers = []

    async def send(self, request):
        self.asked.append(request)
        if self.error:
            raise self.error
        self.answers.append(Answer(*self.parts, status=self.status))
        return self.answers[-1]


class NoGateway(Gateways):
    """Finds none."""

    async def find(self):
        return None


@asynccontextmanager
async def supervised(upstream, *open_paths):
    """A client of a supervisor over this upstream: `ask(method, path, ...)` under its secret."""
    supervisor = Supervisor(GatewaySpec(), open_paths=open_paths)
    upstream = supervisor._transport = upstream or supervisor._transport
    supervisor.gateways = NoGateway(GatewaySpec(), upstream, Summary())
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", supervisor._serve)
    async with TestServer(app) as server, ClientSession() as client:

        async def ask(method, path, *, secret=supervisor._secret, **more):
            url = str(server.make_url(f"/{secret}{path}" if secret else path))
            async with client.request(method, url, **more) as reply:
                return reply.status, reply.headers, await reply.read()

        yield supervisor, ask


OPENAI = "/to/https/api.openai.com/v1"


async def test_nobody_is_served_without_the_secret():
    async with supervised(Upstream(b"x")) as (_, ask):
        assert (await ask("GET", f"{OPENAI}/models", secret="guessed"))[0] == 404


@pytest.mark.parametrize("path", ["/", "/openai/v1/models", "/to", "/to/https", "/to/https//v1", "/to/ftp/host/v1", "/to/https/a%40b/v1", "/to/https/a%2Fb/v1"])  # fmt: skip
async def test_a_path_without_a_service_leads_nowhere(path):
    upstream = Upstream(b"x")
    async with supervised(upstream) as (_, ask):
        assert (await ask("GET", path))[0] == 404
    assert upstream.asked == []


@pytest.mark.parametrize("url", ["https://api.openai.com/v1", "http://127.0.0.1:8080", "http://[::1]:8080/v1/", "https://gateway.example/team-7/anthropic"])  # fmt: skip
async def test_a_call_goes_to_the_service_that_stands_in_its_path(url):
    upstream = Upstream(b"x")
    async with supervised(upstream) as (_, ask):
        await ask("GET", redirect("", url) + "/models")
    (asked,) = upstream.asked
    parts = urlsplit(url)
    assert (asked.address.scheme, asked.address.host, asked.address.port) == (parts.scheme, parts.hostname, parts.port or 443)  # fmt: skip
    assert asked.target == parts.path.rstrip("/") + "/models"


async def test_what_is_no_model_call_goes_there_and_back_as_it_is():
    upstream = Upstream(b"one ", b"two", status=203)
    async with supervised(upstream) as (supervisor, ask):
        status, headers, body = await ask("GET", f"{OPENAI}/models?limit=3")
        assert (status, headers["x-from"], body) == (203, "upstream", b"one two")
        await ask("GET", f"{OPENAI}/chat/completions")
        await ask("POST", f"{OPENAI}/embeddings")
        assert supervisor.summary.routes == {"passed": 3}
    assert [request.target for request in upstream.asked] == ["/v1/models?limit=3", "/v1/chat/completions", "/v1/embeddings"]  # fmt: skip
    assert upstream.asked[0].decompress is False
    assert all(answer.closed for answer in upstream.answers)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/responses?x=1", "/api/v4/completions", "/anthropic/v1/messages"])  # fmt: skip
async def test_a_model_call_is_a_turn(path):
    upstream = Upstream(b"said")
    async with supervised(upstream) as (supervisor, ask):
        assert (await ask("POST", f"/to/https/models.example{path}", data=b"{}"))[2] == b"said"
    assert supervisor.summary.routes == {"straight": 1}
    assert supervisor._turns == {}
    assert (upstream.asked[0].target, upstream.asked[0].decompress) == (path, True)


async def test_a_message_of_an_assistants_thread_is_none():
    async with supervised(Upstream(b"said")) as (supervisor, ask):
        await ask("POST", f"{OPENAI}/threads/thread_1/messages", data=b"{}")
    assert supervisor.summary.routes == {"passed": 1}


async def test_calls_of_a_chatgpt_login_go_where_codex_sends_them():
    for headers, host, target in (
        ({"chatgpt-account-id": "a"}, "chatgpt.com", "/backend-api/codex/responses"),
        ({}, "api.openai.com", "/v1/responses"),
    ):
        upstream = Upstream(b"x")
        async with supervised(upstream) as (_, ask):
            await ask("POST", "/codex/v1/responses", headers=headers)
        assert (upstream.asked[0].address.host, upstream.asked[0].target) == (host, target)


async def test_a_path_without_the_secret_serves_its_owner_one_service_and_no_browser():
    upstream = Upstream(b"x")
    async with supervised(upstream, "/to/https/models.example/v1") as (_, ask):

        async def status(path, **headers):
            return (await ask("GET", path, secret="", headers=headers))[0]

        assert await status("/to/https/models.example/v1/models") == 200
        assert await status("/to/https/models.example/v2/models") == 404
        assert await status("/to/https/evil.example/v1/models") == 404
        assert await status("/gateway/v1/models") == 404
        assert await status("/to/https/models.example/v1/models", origin="http://evil.example") == 404  # fmt: skip
        assert await status("/to/https/models.example/v1/models", host="evil.example") == 404
        assert await status("/to/https/models.example/v1/models", **{"sec-fetch-site": "cross-site"}) == 404  # fmt: skip
    assert [request.address.host for request in upstream.asked] == ["models.example"]


ASK_AS_NOBODY = """
import os, socket, sys
os.setgid(65534), os.setuid(65534)
own = socket.socket()
own.connect(("127.0.0.1", int(sys.argv[1])))
own.sendall(b"GET /codex/v1/models HTTP/1.1\\r\\nhost: 127.0.0.1\\r\\n\\r\\n")
print(own.recv(100).decode().split()[1])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can ask as another user")
async def test_a_path_without_the_secret_is_closed_to_other_users():
    upstream = Upstream(b"x")
    supervisor = Supervisor(GatewaySpec(patience_s=0.2), open_paths=["/codex"])
    upstream = supervisor._transport = upstream or supervisor._transport
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", supervisor._serve)
    async with TestServer(app) as server:
        asking = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", ASK_AS_NOBODY, str(server.port), stdout=asyncio.subprocess.PIPE
        )  # fmt: skip
        said, _ = await asking.communicate()
    assert said.strip() == b"404"
    assert upstream.asked == []


async def test_an_agent_that_tries_a_websocket_first_is_told_to_go_on_without():
    async with supervised(Upstream(b"x")) as (_, ask):
        assert (await ask("GET", f"{OPENAI}/responses", headers={"upgrade": "WebSocket", "connection": "upgrade"}))[0] == 426  # fmt: skip


async def test_an_upstream_that_cannot_be_reached_is_an_error_with_its_reason():
    async with supervised(Upstream(error=UpstreamError("no route"))) as (_, ask):
        status, _, body = await ask("GET", f"{OPENAI}/models")
        assert status == 502
        assert b"no route" in body


async def test_an_answer_that_breaks_off_breaks_off_for_the_agent_too():
    upstream = Upstream(b"half", UpstreamError("gone"))
    async with supervised(upstream) as (_, ask):
        with pytest.raises(ClientError):
            await ask("GET", f"{OPENAI}/models")
    assert upstream.answers[0].closed


@pytest.mark.parametrize("turn", ["", "5"])
async def test_a_call_of_a_gateway_for_which_nobody_waits_is_gone(turn):
    upstream = Upstream(b"x")
    async with supervised(upstream) as (_, ask):
        assert (await ask("POST", "/gateway/v1/chat/completions", headers={"millgate-turn": turn}))[0] == GONE  # fmt: skip
    assert upstream.asked == []


async def test_a_call_whose_turn_left_the_gateway_before_the_call_was_whole_is_gone():
    upstream = Upstream(b"x")
    async with supervised(upstream) as (supervisor, ask):
        turn = SimpleNamespace(gateway=object())
        supervisor._turns["1"] = turn

        async def body():
            yield b"{"
            for _ in range(100):  # until the supervisor has its head
                await asyncio.sleep(0)
            turn.gateway = None
            yield b"}"

        headers = {"millgate-turn": "1"}
        assert (await ask("POST", "/gateway/v1/chat/completions", headers=headers, data=body()))[0] == GONE  # fmt: skip


async def test_a_call_that_is_severed_before_its_answer_began_is_gone():
    class Waiting:
        async def send(self, request):
            await asyncio.Event().wait()

    async with supervised(Waiting()) as (supervisor, ask):
        asked = UpstreamRequest("POST", Address("http", "h", 1), "/", [], b"", Timeouts(1, 1, 1))
        recording = Recording(Waiting(), asked)
        supervisor._turns["1"] = SimpleNamespace(gateway=object(), call=lambda _: recording)  # fmt: skip
        asking = asyncio.ensure_future(ask("POST", "/gateway/v1/chat/completions", headers={"millgate-turn": "1"}))  # fmt: skip
        await asyncio.sleep(0)
        recording.sever()
        assert (await asking)[0] == GONE
        await recording.close()


@pytest.mark.parametrize("name", ["NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", ""])  # fmt: skip
async def test_an_authority_that_the_agent_trusts_is_trusted(name, monkeypatch, tmp_path):
    authority, file = trustme.CA(), tmp_path / "company.pem"
    authority.cert_pem.write_to_path(file)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(tmp_path / "missing.pem"))
    monkeypatch.setenv(name or "UNRELATED", str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def models(_):
        return web.Response(text="ours")

    app = web.Application()
    app.router.add_get("/v1/models", models)
    async with TestServer(app) as server, supervised(None) as (supervisor, ask):
        listener = socket.create_server(("127.0.0.1", 0))
        await web.SockSite(server.runner, listener, ssl_context=context).start()
        port = listener.getsockname()[1]
        status, _, body = await ask("GET", f"/to/https/127.0.0.1:{port}/v1/models")
        await supervisor._transport.close()
    if name:
        assert (status, body) == (200, b"ours")
    else:
        assert status == 502
        assert b"SSL_CERT_FILE" in body


async def test_a_general_proxy_is_used_unless_it_speaks_socks(monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    for proxy, used in (("http://proxy.example:3128", True), ("socks5://proxy.example:1080", False)):  # fmt: skip
        monkeypatch.setenv("ALL_PROXY", proxy)
        upstream = Upstream(b"x")
        async with supervised(upstream) as (_, ask):
            await ask("GET", f"{OPENAI}/models")
        assert upstream.asked[0].proxy == (proxy if used else "")


async def test_a_proxy_that_the_environment_names_is_used_but_for_hosts_that_are_exempt(
    monkeypatch,
):
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "ALL_PROXY"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "gateway.example")
    for path, proxy in ((OPENAI, "http://proxy.example:3128"), ("/to/https/gateway.example/v1", ""), ("/to/http/plain.example/v1", "")):  # fmt: skip
        upstream = Upstream(b"x")
        async with supervised(upstream) as (_, ask):
            await ask("GET", f"{path}/models")
        assert upstream.asked[0].proxy == proxy
