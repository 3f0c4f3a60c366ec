"""The supervisor without any gateway: whose calls it takes, where they go, and what it passes on as it came."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from aiohttp import ClientError, ClientSession, web
from aiohttp.test_utils import TestServer

from headgate.errors import UpstreamError
from headgate.service.wrap.agents import CHATGPT, PROVIDERS
from headgate.service.wrap.gateways import GatewayPool
from headgate.service.wrap.spec import GatewaySpec
from headgate.service.wrap.supervisor import Supervisor


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


@asynccontextmanager
async def supervised(upstream, **upstreams):
    """A client of a supervisor over this upstream: `ask(method, path, ...)` under its secret."""
    supervisor = Supervisor()
    supervisor._transport = upstream
    supervisor.upstreams = upstreams
    supervisor.pool = GatewayPool(GatewaySpec("", ""), upstream)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", supervisor._serve)
    async with TestServer(app) as server, ClientSession() as client:

        async def ask(method, path, *, secret=supervisor._secret, **more):
            url = str(server.make_url(f"/{secret}{path}"))
            async with client.request(method, url, **more) as reply:
                return reply.status, reply.headers, await reply.read()

        yield supervisor, ask


OPENAI = "https://api.openai.com/v1"


async def test_nobody_is_served_without_the_secret():
    async with supervised(Upstream(b"x"), openai=OPENAI) as (_, ask):
        assert (await ask("GET", "/openai/v1/models", secret="guessed"))[0] == 404


@pytest.mark.parametrize("name", ["gemini", "nobody", ""])
async def test_a_provider_that_the_agent_does_not_use_is_not_there(name):
    upstream = Upstream(b"x")
    async with supervised(upstream, openai=OPENAI, nobody=OPENAI) as (_, ask):
        assert (await ask("GET", f"/{name}/v1/models"))[0] == 404
    assert upstream.asked == []


async def test_what_is_no_model_call_goes_there_and_back_as_it_is():
    upstream = Upstream(b"one ", b"two", status=203)
    async with supervised(upstream, openai=OPENAI) as (supervisor, ask):
        status, headers, body = await ask("GET", "/openai/v1/models?limit=3")
        assert (status, headers["x-from"], body) == (203, "upstream", b"one two")
        await ask("GET", "/openai/v1/chat/completions")
        await ask("POST", "/openai/v1/embeddings")
        assert supervisor.routes == {"passed": 3}
    assert [request.target for request in upstream.asked] == ["/models?limit=3", "/chat/completions", "/embeddings"]  # fmt: skip
    assert upstream.asked[0].decompress is False
    assert all(answer.closed for answer in upstream.answers)


@pytest.mark.parametrize("path", ["/openai/v1/chat/completions", "/openai/responses?x=1", "/openai/v1/completions"])  # fmt: skip
async def test_a_model_call_is_a_turn(path):
    upstream = Upstream(b"said")
    async with supervised(upstream, openai=OPENAI) as (supervisor, ask):
        assert (await ask("POST", path, data=b"{}"))[2] == b"said"
    assert supervisor.routes == {"straight": 1}
    assert supervisor._turns == {}
    assert upstream.asked[0].decompress is True


async def test_calls_of_a_chatgpt_login_go_where_codex_sends_them_unless_the_user_named_an_address():
    for address, marked, host in (
        (PROVIDERS["openai"].url, True, "chatgpt.com"),
        (PROVIDERS["openai"].url, False, "api.openai.com"),
        ("https://gateway.example/v1", True, "gateway.example"),
    ):
        upstream = Upstream(b"x")
        async with supervised(upstream, openai=address) as (_, ask):
            await ask("GET", "/openai/v1/models", headers={"chatgpt-account-id": "a"} if marked else {})  # fmt: skip
        assert upstream.asked[0].address.host == host
    assert "chatgpt.com" in CHATGPT


async def test_an_agent_that_tries_a_websocket_first_is_told_to_go_on_without():
    async with supervised(Upstream(b"x"), openai=OPENAI) as (_, ask):
        assert (await ask("GET", "/openai/v1/responses", headers={"upgrade": "WebSocket", "connection": "upgrade"}))[0] == 426  # fmt: skip


async def test_an_upstream_that_cannot_be_reached_is_an_error_with_its_reason():
    async with supervised(Upstream(error=UpstreamError("no route")), openai=OPENAI) as (_, ask):
        status, _, body = await ask("GET", "/openai/v1/models")
        assert status == 502
        assert b"no route" in body


async def test_an_answer_that_breaks_off_breaks_off_for_the_agent_too():
    upstream = Upstream(b"half", UpstreamError("gone"))
    async with supervised(upstream, openai=OPENAI) as (_, ask):
        with pytest.raises(ClientError):
            await ask("GET", "/openai/v1/models")
    assert upstream.answers[0].closed


@pytest.mark.parametrize("turn", ["", "5.1", "1.2"])
async def test_a_call_of_a_gateway_for_which_nobody_waits_is_gone(turn):
    upstream = Upstream(b"x")
    async with supervised(upstream, openai=OPENAI) as (_, ask):
        assert (await ask("POST", "/gateway/v1/chat/completions", headers={"headgate-turn": turn}))[0] == 410  # fmt: skip
    assert upstream.asked == []


async def test_a_call_whose_turn_left_the_gateway_before_the_call_was_whole_is_gone():
    upstream = Upstream(b"x")
    async with supervised(upstream, openai=OPENAI) as (supervisor, ask):
        turn = SimpleNamespace(name="1.1", gateway=object())
        supervisor._turns["1"] = turn

        async def body():
            yield b"{"
            for _ in range(100):  # until the supervisor has its head
                await asyncio.sleep(0)
            turn.name = "1.2"
            yield b"}"

        headers = {"headgate-turn": "1.1"}
        assert (await ask("POST", "/gateway/v1/chat/completions", headers=headers, data=body()))[0] == 410  # fmt: skip


async def test_a_proxy_that_the_environment_names_is_used_but_for_hosts_that_are_exempt(
    monkeypatch,
):
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "ALL_PROXY"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "gateway.example")
    for address, proxy in ((OPENAI, "http://proxy.example:3128"), ("https://gateway.example/v1", ""), ("http://plain.example/v1", "")):  # fmt: skip
        upstream = Upstream(b"x")
        async with supervised(upstream, openai=address) as (_, ask):
            await ask("GET", "/openai/v1/models")
        assert upstream.asked[0].proxy == proxy
