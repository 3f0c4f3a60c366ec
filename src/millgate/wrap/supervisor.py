"""Supervisor: owns the socket that the agent talks to, and stands on both sides of the gateway.

    /SECRET/to/https/HOST/PATH     what the agent sends, and to whom
    /SECRET/gateway/v1/...         what the gateway sends on

An agent that is told its address on a command line has one without the secret. There the process that asks must be
one of this user, and no page in a browser; and it reaches one service only, the agent's own.

Calls that the guard can read are turns. Everything else goes to its upstream as it is and comes back as it is.
"""

import asyncio
import os
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from aiohttp import web

from millgate.errors import UpstreamError
from millgate.service.proxy.http_client import NOT_REACHED, HttpClient, header, parse_address
from millgate.service.wire import GONE, Headers
from millgate.wrap.gateways import STOP_S, Gateways
from millgate.wrap.peer import is_owner
from millgate.wrap.spec import CODEX, GatewaySpec, read_redirect
from millgate.wrap.summary import Summary
from millgate.wrap.turn import (
    TURN_HEADER,
    AgentReply,
    AgentRequest,
    AgentTurn,
    Recording,
    response_for,
    sever,
)

GATEWAY = "gateway"
# The longest first: the second ends as the first does.
GUARDED = ("/chat/completions", "/completions", "/messages", "/responses")
THREADS = "/threads/"  # messages of OpenAI's assistants are not Anthropic's
# Codex sends the calls of people who logged in with ChatGPT elsewhere; this header marks them.
OPENAI, OPENAI_PATH = "https://api.openai.com", "/v1"
CHATGPT, CHATGPT_PATH = "https://chatgpt.com", "/backend-api/codex"
CHATGPT_HEADER = b"chatgpt-account-id"
# What agents and their libraries trust beside the system's authorities, as a company's own.
AUTHORITIES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
BROWSER_HEADERS = ("origin", "sec-fetch-site")
_gemini = re.compile(r"/models/[^/]+:(?:generateContent|streamGenerateContent)$")
MOST_OTHERS, OTHER_CHARS = (
    100,
    80,
)  # kinds of other requests that are counted, and the length of their paths
MAX_HEADER = 65_536  # bytes; keys of some services are several kilobytes long


class Supervisor:
    """The server between an agent, the gateway and the upstreams."""

    def __init__(
        self, spec: GatewaySpec, *, secret: str = "", open_paths: Sequence[str] = ()
    ) -> None:
        self.summary = Summary()
        self.url = ""
        """Our address for those who know the secret."""
        self._spec, self._open_paths = spec, open_paths
        self._secret = secret or secrets.token_urlsafe(12)
        self._transport = HttpClient(filter(None, map(os.environ.get, AUTHORITIES)))
        self._turns: dict[str, AgentTurn] = {}
        self._ids = count(1)

    async def start(self, listener: socket.socket | None = None) -> None:
        """Serve on a socket of the loopback address that listens already, or on a new one, and start a gateway.

        It loads while the agent starts: a call that comes before it is there waits for it.
        """
        listener = listener or socket.create_server(("127.0.0.1", 0))
        app = web.Application(client_max_size=0)  # the upstream knows its own limit
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=600,
            shutdown_timeout=1,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
        )
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/{self._secret}"
        upstream, secret = f"{self.url}/{GATEWAY}/v1", secrets.token_urlsafe(18)
        spec = replace(self._spec, upstream=upstream, secret=secret)
        self.gateways = Gateways(spec, self._transport, self.summary)
        self.gateways.start()

    async def close(self) -> None:
        """Stop listening and end the gateway.

        Turns of children that the agent left behind are cancelled before, so that no gateway waits for their end, and
        the numbers hold how the last turns ended.
        """
        await self._runner.cleanup()
        await self.gateways.close()
        await self._transport.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        _, first, rest = (*path.split("/", 2), "")[:3]
        if not secrets.compare_digest(first.encode(), self._secret.encode()):
            if not await self._is_open(request, path):
                raise web.HTTPNotFound
            rest = path.removeprefix("/")
        try:
            return await self._dispatch(request, rest, f"?{query}" if query else "")
        except ConnectionError:
            return web.Response(status=499)  # the agent is gone

    async def _is_open(self, request: web.Request, path: str) -> bool:
        """Whether a request without the secret is the agent's: by its path, and by the user whose process asks."""
        if not any(f"{path}/".startswith(f"{known}/") for known in self._open_paths):
            return False
        if request.transport is None or request.host.partition(":")[0] != "127.0.0.1":
            return False
        if any(name in request.headers for name in BROWSER_HEADERS):
            return False
        ours, theirs = (request.transport.get_extra_info(end) for end in ("sockname", "peername"))
        return bool(ours and theirs) and await is_owner(ours[:2], theirs[:2])

    async def _dispatch(self, request: web.Request, path: str, query: str) -> web.StreamResponse:
        name, _, rest = path.partition("/")
        if name == GATEWAY:
            return await self._call(request)
        found = _codex_service(request, f"/{rest}") if name == CODEX else read_redirect(path)
        if found is None:
            raise web.HTTPNotFound
        if request.headers.get("upgrade", "").lower() == "websocket":
            return web.Response(status=426)  # agents that try one first go on without
        return await self._answer(request, *found, query)

    # The agent's side

    async def _answer(
        self, request: web.Request, service: str, path: str, query: str
    ) -> web.StreamResponse:
        asked = AgentRequest(
            request.method,
            path + query,
            list(request.raw_headers),
            await request.read(),
            parse_address(service),
            _proxy_for(service),
        )
        guarded = _guarded_path(path, query)
        if request.method == "POST" and guarded and THREADS not in path:
            self.summary.services[asked.address.host] += 1
            return await self._take_turn(request, asked, guarded)
        self.summary.routes["passed"] += 1
        if len(self.summary.others) < MOST_OTHERS:
            self.summary.others[f"{request.method} {asked.address.host}{path[:OTHER_CHARS]}"] += 1
        return await self._pass_on(request, asked)

    async def _take_turn(
        self, request: web.Request, asked: AgentRequest, path: str
    ) -> web.StreamResponse:
        id, reply = str(next(self._ids)), AgentReply(request)
        turn = AgentTurn(
            id, asked, reply, path=path, gateways=self.gateways, transport=self._transport
        )
        self._turns[id] = turn
        try:
            await turn.serve()
        finally:
            del self._turns[id]
            self.summary.routes[turn.route] += 1
            if turn.ending:
                self.summary.endings[turn.ending] += 1
        assert reply.response is not None
        return reply.response

    async def _pass_on(self, request: web.Request, asked: AgentRequest) -> web.StreamResponse:
        """Pass a request and its answer on unchanged."""
        try:
            found = await self._transport.send(asked.to_upstream(asked.body, plain=False))
        except UpstreamError as error:
            return web.json_response({"error": {"message": error.message}}, status=502)
        response = response_for(found.status, found.headers)
        try:
            await response.prepare(request)
            while data := await found.read():
                await response.write(data)
            await response.write_eof()
        except UpstreamError as error:
            sever(request, error)
        finally:
            await found.close()
        return response

    # The gateway's side

    async def _call(self, request: web.Request) -> web.StreamResponse:
        """Answer a call that a gateway makes for a turn with that of the turn's upstream."""
        body = await request.read()  # first, for the turn may leave the gateway while it comes
        turn = self._turns.get(request.headers.get(TURN_HEADER.decode(), ""))
        gateway = turn.gateway if turn is not None else None
        if turn is None or gateway is None:
            return web.Response(status=GONE)
        recording = turn.call(body)
        try:
            return await _play(recording, request)
        except (asyncio.CancelledError, ConnectionError):
            self.gateways.do_aside(turn.note_hang_up(recording, gateway))
            raise


def _guarded_path(path: str, query: str) -> str:
    """Where a gateway serves the calls of a path; nothing if it guards none.

    Of a query it gets only how Gemini's answer is to be streamed: a key may stand there too.
    """
    if found := _gemini.search(path):
        return f"/v1beta{found[0]}" + "?alt=sse" * ("alt=sse" in query)
    return next((f"/v1{end}" for end in GUARDED if path.endswith(end)), "")


async def _play(recording: Recording, request: web.Request) -> web.StreamResponse:
    """Send a recorded answer from its beginning, and what is added to it as it comes."""
    try:
        await recording.head()
    except UpstreamError as error:
        status, headers = (GONE, {}) if recording.severed else (502, {NOT_REACHED.decode(): "1"})
        return web.json_response(
            {"error": {"message": error.message}}, status=status, headers=headers
        )
    response = response_for(recording.status, recording.headers)
    await response.prepare(request)
    at = 0
    try:
        while data := await recording.read(at):
            await response.write(data)
            at += len(data)
    except UpstreamError:
        if (
            recording.severed
        ):  # its gateway is hanging up, and must not take this for a fault of the service
            await asyncio.sleep(STOP_S)
        sever(request)
        return response
    await response.write_eof()
    return response


def _codex_service(request: web.Request, path: str) -> tuple[str, str]:
    """The service that Codex would have called, and the path there: it depends on how its user has logged in."""
    headers: Headers = list(request.raw_headers)
    if header(headers, CHATGPT_HEADER):
        return CHATGPT, CHATGPT_PATH + path.removeprefix(OPENAI_PATH)
    return OPENAI, path


def _proxy_for(url: str) -> str:
    """The HTTP proxy that the user's environment names for an address: the agent would have used it too."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return ""
    named = getproxies()
    general = named.get("all", "")
    return named.get(parts.scheme) or (general if general.startswith("http") else "")  # no SOCKS
