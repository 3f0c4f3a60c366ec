"""Supervisor: owns the socket that the agent talks to, and stands on both sides of the gateway.

    /SECRET/openai/v1/...      what the agent sends, by provider
    /SECRET/gateway/v1/...     what the gateway sends on

Calls that the guard can read are turns. Everything else goes to its upstream as it is and comes back as it is.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from itertools import count
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from aiohttp import web

from headgate.errors import UpstreamError
from headgate.service.proxy.http_client import HttpClient
from headgate.service.proxy.transport import Headers, header, parse_address
from headgate.service.wrap.agents import CHATGPT, CHATGPT_HEADER, PROVIDERS
from headgate.service.wrap.gateways import STOP_S, GatewayPool
from headgate.service.wrap.recording import Recording
from headgate.service.wrap.reply import AgentReply, response_for
from headgate.service.wrap.spec import GatewaySpec
from headgate.service.wrap.turn import TURN_HEADER, AgentRequest, AgentTurn

GATEWAY = "gateway"
GUARDED = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"})
MAX_HEADER = 65_536  # bytes; keys of some services are several kilobytes long


class Supervisor:
    """The server between an agent, the gateway and the upstreams."""

    def __init__(
        self, *, store: str | None = None, inject: bool = False, patience_s: float = 0.8
    ) -> None:
        self.routes: Counter[str] = Counter()
        """Requests by how they were answered: those of a turn, and `passed` for all that are none."""
        self.upstreams: Mapping[str, str] = {}
        """Where each provider's calls go, by its name."""
        self.url = ""
        self._store, self._inject, self._patience_s = store, inject, patience_s
        self._secret = secrets.token_urlsafe(12)
        self._transport = HttpClient()
        self._turns: dict[str, AgentTurn] = {}
        self._ids = count(1)
        self._aside: set[asyncio.Future[None]] = set()

    async def start(self) -> None:
        """Listen on a free port of the loopback address, and start the gateways."""
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
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/{self._secret}"
        upstream = f"{self.url}/{GATEWAY}/v1"
        secret = secrets.token_urlsafe(18)
        spec = GatewaySpec(upstream, secret, self._store, self._inject, self._patience_s)
        self.pool = GatewayPool(spec, self._transport)
        try:
            await self.pool.start()
        except BaseException:
            await self._runner.cleanup()
            await self._transport.close()
            raise

    async def close(self) -> None:
        """Stop listening and end the gateways; every gateway's last numbers are read before.

        Turns of children that the agent left behind are cancelled, so that no gateway waits for their end.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                if (gateway := self.pool.current) and await gateway.is_alive():
                    await gateway.read_metrics()
        await self._runner.cleanup()
        for task in self._aside:
            task.cancel()
        if self._aside:
            await asyncio.wait(self._aside)
        await self.pool.close()
        await self._transport.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        _, secret, name, *rest = (*path.split("/", 3), "", "")[:4]
        if not secrets.compare_digest(secret.encode(), self._secret.encode()):
            raise web.HTTPNotFound
        target = f"/{rest[0]}" + (f"?{query}" if query else "")
        try:
            return await self._dispatch(request, name, target)
        except ConnectionError:
            return web.Response(status=499)  # the agent is gone

    async def _dispatch(self, request: web.Request, name: str, target: str) -> web.StreamResponse:
        if name == GATEWAY:
            return await self._call(request)
        if name not in PROVIDERS or name not in self.upstreams:
            raise web.HTTPNotFound
        if request.headers.get("upgrade", "").lower() == "websocket":
            return web.Response(status=426)  # agents that try one first go on without
        return await self._answer(request, name, target)

    # The agent's side

    async def _answer(self, request: web.Request, name: str, target: str) -> web.StreamResponse:
        headers: Headers = list(request.raw_headers)
        url = self.upstreams[name]
        if url == PROVIDERS["openai"].url and header(headers, CHATGPT_HEADER):
            url = CHATGPT
        asked = AgentRequest(
            request.method,
            target.removeprefix(PROVIDERS[name].suffix),
            headers,
            await request.read(),
            parse_address(url),
            _proxy_for(url),
        )
        path = asked.target.partition("?")[0]
        path = path if path.startswith("/v1/") else f"/v1{path}"
        if request.method == "POST" and path in GUARDED:
            return await self._take_turn(request, asked, path)
        self.routes["passed"] += 1
        return await self._pass_on(request, asked)

    async def _take_turn(
        self, request: web.Request, asked: AgentRequest, path: str
    ) -> web.StreamResponse:
        id, reply = str(next(self._ids)), AgentReply(request)
        turn = AgentTurn(id, asked, reply, path=path, pool=self.pool, transport=self._transport)
        self._turns[id] = turn
        try:
            await turn.serve()
        finally:
            del self._turns[id]
            self.routes[turn.route] += 1
            if gateway := self.pool.current:
                self._do_aside(gateway.read_metrics())
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
        except UpstreamError:
            _abort(request)
        finally:
            await found.close()
        return response

    # The gateway's side

    async def _call(self, request: web.Request) -> web.StreamResponse:
        """Answer a call that a gateway makes for a turn with that of the turn's upstream."""
        body = await request.read()  # first, for the turn may leave the gateway while it comes
        name = request.headers.get(TURN_HEADER.decode(), "")
        turn = self._turns.get(name.rpartition(".")[0])
        gateway = turn.gateway if turn is not None and turn.name == name else None
        if turn is None or gateway is None:
            return web.Response(status=410)  # the agent no longer waits for it
        recording = turn.call(body)
        try:
            return await _play(recording, request)
        except (asyncio.CancelledError, ConnectionError):
            self._do_aside(turn.note_hang_up(recording, gateway))
            raise

    def _do_aside(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)


async def _play(recording: Recording, request: web.Request) -> web.StreamResponse:
    """Send a recorded answer from its beginning, and what is added to it as it comes."""
    try:
        await recording.head()
    except UpstreamError as error:
        return web.json_response({"error": {"message": error.message}}, status=502)
    response = response_for(recording.status, recording.headers)
    await response.prepare(request)
    at = 0
    try:
        while data := await recording.read(at):
            await response.write(data)
            at += len(data)
    except UpstreamError:
        _abort(request)
        return response
    await response.write_eof()
    return response


def _abort(request: web.Request) -> None:
    """Break off a reply, so that its reader knows it is not complete."""
    if request.transport is not None:
        request.transport.abort()


def _proxy_for(url: str) -> str:
    """The HTTP proxy that the user's environment names for an address: the agent would have used it too."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return ""
    return getproxies().get(parts.scheme, "")
