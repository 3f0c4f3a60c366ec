"""Turn: one model call of the agent, answered whatever becomes of the gateway.

    agent ── supervisor ── gateway ── supervisor ── upstream

The supervisor stands on both sides of the gateway: it hands the request in, and makes the calls that the gateway
makes of it. So it knows what the agent has, and holds what the upstream said. If the gateway dies, falls silent or
takes its time, the upstream's own bytes go on, as long as what the agent has is how they begin. Else the connection
breaks, as it does where the upstream broke off or a tool call looped, and the agent asks again. Only where a cap is set
and `fuse.fail_closed`, a call that no gateway counts is refused.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import orjson
from aiohttp import web

from millgate.errors import MillgateError, StoreError, UpstreamError
from millgate.guard.error_codes import openai_error
from millgate.service.edge.reply import BROKEN_OFF, forwardable
from millgate.service.proxy.http_client import (
    KEY_HEADERS,
    Address,
    HttpClient,
    Timeouts,
    UpstreamRequest,
    UpstreamReset,
)
from millgate.service.wire import FIRST_ERROR, Headers, reset_at_close
from millgate.wrap.gateways import NEVER_S, Gateway, Gateways
from millgate.wrap.spec import UPSTREAM

STEP_S = 0.05  # between two looks at what a gateway took of a turn: shorter than a person notices
CAPS = (402, 429)  # a cap that the user has set is reached: the one refusal that is meant
TURN_HEADER = b"millgate-turn"
NOT_SENT = (b"host", b"content-length", b"expect", TURN_HEADER)

Route = Literal["guarded", "straight", "broken", "refused", "given up"]
"""How a turn was answered: by the gateway; by the upstream directly; not to its end; not at all, for no gateway would
have counted it, or for the agent left before anything came.
"""
NOT_REACHED = "not reached"
"""The service could not be reached, or closed the connection without an answer."""


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What the agent asks, and the upstream that it asks."""

    method: str
    target: str
    """Path and query behind the upstream's base address."""
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    address: Address
    proxy: str = ""

    def to_upstream(self, body: bytes, *, plain: bool) -> UpstreamRequest:
        """The request as the upstream gets it, with the agent's own headers and this body.

        `plain` asks for an answer that is not compressed. A body that is not the agent's own is not packed either:
        a gateway has unpacked what it has read.
        """
        encoding: Headers = [(b"accept-encoding", b"identity")] if plain else []
        without = (*NOT_SENT, b"accept-encoding") if plain else NOT_SENT
        if body != self.body:
            without = (*without, b"content-encoding")
        return UpstreamRequest(
            self.method,
            self.address,
            self.target,
            [*forwardable(self.headers, without), *encoding],
            body,
            Timeouts(30.0, NEVER_S, NEVER_S),
            self.proxy,
            decompress=plain,
        )

    def to_gateway(self, turn: str) -> Headers:
        """The headers for a gateway: no key, and what the agent wants of it but for the upstream, which is ours."""
        wanted = [
            (name, value)
            for name, value in self.headers
            if name.lower().startswith(b"x-millgate-") and name.lower() != b"x-millgate-upstream"
        ]
        return [
            *forwardable(self.headers, (*NOT_SENT, *KEY_HEADERS)),
            (TURN_HEADER, turn.encode()),
            (b"x-millgate-upstream", UPSTREAM.encode()),
            *wanted,
        ]


class AgentReply:
    """What the agent gets for one request, and what it has of it. It tells no length: another may finish it."""

    def __init__(self, request: web.BaseRequest) -> None:
        self.sent = bytearray()
        """The body that the agent has."""
        self.waits_for_agent = False
        """Whether the agent is slow to take what there is."""
        self.response: web.StreamResponse | None = None
        self._request = request

    async def begin(self, status: int, headers: Headers) -> None:
        """Send status and headers, if that was not done before."""
        if self.response is None:
            self.response = response_for(status, headers)
            await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Send more of the body."""
        assert self.response is not None
        self.sent += data
        self.waits_for_agent = True
        try:
            await self.response.write(data)
        finally:
            # also if the writer is cancelled: another goes on with the reply
            self.waits_for_agent = False

    async def end(self) -> None:
        """The reply is complete."""
        assert self.response is not None
        await self.response.write_eof()

    async def fail(self, error: MillgateError) -> None:
        """The reply cannot be completed: an error with a status if nothing was sent, else a severed connection."""
        if self.response is None:
            await self.begin(error.status, [(b"content-type", b"application/json")])
            await self.write(orjson.dumps(openai_error(error, None)))
            await self.end()
        else:
            sever(self._request, error)


class Recording:
    """An upstream's answer while it comes in, kept for the gateway and for who goes on in its place.

    It belongs to no reader. When the one that asked for it goes away it comes in all the same, until it is severed.
    """

    def __init__(self, transport: HttpClient, request: UpstreamRequest) -> None:
        self.status = 0
        self.headers: Headers = []
        self.body = bytearray()
        self.ended = self.complete = self.severed = False
        self.error: UpstreamError | None = None
        self._changed = asyncio.Event()
        self._task = asyncio.ensure_future(self._fill(transport, request))

    async def _fill(self, transport: HttpClient, request: UpstreamRequest) -> None:
        try:
            response = await transport.send(request)
            try:
                self.status, self.headers = response.status, response.headers
                self._notify()
                while data := await response.read():
                    self.body += data
                    self._notify()
                self.complete = True
            finally:
                await response.close()
        except UpstreamError as error:
            self.error = error
        finally:
            self.ended = True
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def head(self) -> None:
        """Wait for status and headers; UpstreamError if none came."""
        while not self.status and not self.ended:
            await self._changed.wait()
        if not self.status:
            raise self.error or UpstreamError("the answer was severed before it began")

    async def read(self, at: int) -> bytes:
        """What has come behind the first `at` bytes, once there is any; b"" at the end. UpstreamError if it broke."""
        while len(self.body) <= at and not self.ended:
            await self._changed.wait()
        if len(self.body) <= at and not self.complete:
            raise self.error or UpstreamError("the answer was severed")
        return bytes(self.body[at:])

    def sever(self) -> None:
        """Stop the upstream at once: what comes now is paid for and not wanted."""
        if not self.ended:
            self.severed = True
            self._task.cancel()

    async def close(self) -> None:
        """Sever it, and wait until its connection is closed."""
        self.sever()
        await asyncio.wait({self._task})


class AgentTurn:
    """One model call."""

    def __init__(
        self,
        id: str,
        request: AgentRequest,
        reply: AgentReply,
        *,
        path: str,
        gateways: Gateways,
        transport: HttpClient,
    ) -> None:
        self.id, self.request, self.reply = id, request, reply
        self.route: Route = "guarded"
        self.ending = ""
        """Why the agent has no answer: a status, or that the service was not reached; empty if it has one."""
        self.calls: list[Recording] = []
        """The upstream's answers to the calls that the gateway made, or to ours."""
        self.gateway: Gateway | None = None
        """The gateway that works on it."""
        self._path, self._gateways, self._transport = path, gateways, transport

    async def serve(self) -> None:
        """Answer the agent."""
        try:
            gateway = await self._gateways.find()
            if gateway is not None and await self._guard(gateway):
                await self.reply.end()  # what the gateway does now no longer matters
                self._gateways.do_aside(self._gateways.note_answer(gateway))
            elif self.reply.sent.endswith(BROKEN_OFF):  # the gateway means it, as the guard does
                await self.reply.fail(UpstreamError("a tool call looped"))
            else:
                await self._go_straight()
        except (asyncio.CancelledError, ConnectionError):
            if self.reply.response is None:
                self.route = "given up"
            raise
        finally:
            if self.reply.response is not None and self.reply.response.status >= FIRST_ERROR:
                self.ending = self.ending or str(self.reply.response.status)
            await asyncio.gather(*(call.close() for call in self.calls))

    # The gateway's side

    def call(self, body: bytes) -> Recording:
        """The upstream's answer to a call of the gateway."""
        request = self.request.to_upstream(body, plain=True)
        self.calls.append(Recording(self._transport, request))
        return self.calls[-1]

    async def note_hang_up(self, recording: Recording, gateway: Gateway) -> None:
        """A gateway hung up on an answer: if it did so on purpose and not by dying, the upstream is stopped."""
        if await gateway.is_alive() and self.gateway is gateway:
            recording.sever()

    # Through the gateway

    async def _guard(self, gateway: Gateway) -> bool:
        """Let the gateway answer; True if it answered the agent to the end."""
        self.gateway = gateway
        relay = asyncio.ensure_future(self._relay(gateway))
        watch = asyncio.ensure_future(self._watch(gateway))
        try:
            await asyncio.wait({relay, watch}, return_when=asyncio.FIRST_COMPLETED)
            if relay.done() and relay.result():
                return True
            if not await gateway.is_alive():
                self._gateways.do_aside(self._gateways.replace(gateway))
            return False
        finally:
            self.gateway = None
            relay.cancel()
            watch.cancel()
            await asyncio.wait({relay, watch})

    async def _watch(self, gateway: Gateway) -> None:
        """Return when the gateway has failed, or has used its time; waiting for the upstream does not count."""
        used_s = silent_s = 0.0
        spec = self._gateways.spec
        # a call that must be counted waits for a gateway as long as that one lives
        while used_s < spec.patience_s or (spec.fail_closed and await gateway.is_alive()):
            heard = gateway.heard
            with suppress(TimeoutError):
                async with asyncio.timeout(STEP_S):
                    await gateway.failed.wait()
                    return
            if self.reply.waits_for_agent or heard != gateway.heard:
                silent_s = 0.0
            elif any(not call.ended for call in self.calls):
                silent_s += STEP_S
                if silent_s >= gateway.silence_s and not await gateway.is_alive():
                    return
            else:
                used_s += STEP_S

    async def _relay(self, gateway: Gateway) -> bool:
        """The gateway's answer to the agent; whether it came to its end."""
        headers = self.request.to_gateway(self.id)
        try:
            response = await gateway.send(
                self.request.method, self._path, headers, self.request.body
            )
        except UpstreamError:
            return False
        try:
            if self._is_refusal(response.status):
                return False
            await self.reply.begin(response.status, response.headers)
            while data := await response.read():
                gateway.heard += 1
                await self.reply.write(data)
        except UpstreamError:
            return False
        finally:
            await response.close()
        return True

    def _is_refusal(self, status: int) -> bool:
        """Whether this is an error of the gateway's own: neither the upstream's nor a cap that the user has set.

        If every call must be counted, the gateway's word is the last one.
        """
        if self._gateways.spec.fail_closed:
            return False
        statuses = {call.status for call in self.calls}
        return status >= FIRST_ERROR and status not in CAPS and status not in statuses

    # Around it

    async def _go_straight(self) -> None:
        """Go on with the upstream's own bytes, if what the agent has is how they begin; else break off."""
        sent, has_begun = self.reply.sent, self.reply.response is not None
        fits = [call for call in self.calls if call.body.startswith(sent)]
        if any(call.severed for call in self.calls):  # a loop was cut: what follows is no answer
            fits = []
        answers = (call for call in fits if call.status < FIRST_ERROR)
        call = next(answers, fits[-1] if fits else None)
        if call is None and has_begun:
            error = self.calls[-1].error if self.calls else None
            self.route = (
                "guarded" if error else "broken"
            )  # the guard has seen what the upstream did
            await self.reply.fail(error or UpstreamError("the gateway failed while it went on with an answer"))  # fmt: skip
            return
        if call is None and self._gateways.spec.fail_closed:
            self.route = "refused"
            await self.reply.fail(
                StoreError(
                    "what this call spends cannot be counted: the gateway of wrap failed",
                    hint="fuse.fail_closed refuses such calls; another gateway starts with the next one",
                )
            )
            return
        if call is None:
            call = self.call(self.request.body)
        # another gateway would have been told the same
        self.route = "guarded" if call.error and self.calls[-1] is call else "straight"
        try:
            await call.head()
            await self.reply.begin(call.status, call.headers)
            while data := await call.read(len(sent)):
                await self.reply.write(data)
        except UpstreamError as error:
            self.ending = "" if call.status else NOT_REACHED
            await self.reply.fail(error)
            return
        await self.reply.end()


def response_for(status: int, headers: Headers) -> web.StreamResponse:
    """A response with these headers, those of the connection left out."""
    response = web.StreamResponse(status=status)
    for name, value in forwardable(headers, (b"content-length",)):
        response.headers.add(name.decode("latin-1"), value.decode("latin-1"))
    return response


def sever(request: web.BaseRequest, error: MillgateError | None = None) -> None:
    """Break off a reply, so that its reader knows it is not complete: by a reset if the upstream's was one."""
    if request.transport is not None:
        if isinstance(error, UpstreamReset):
            reset_at_close(request.transport.get_extra_info("socket"))
        request.transport.abort()
