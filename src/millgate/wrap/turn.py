"""Turn: one model call of the agent, answered whatever becomes of the gateway.

    agent ── supervisor ── gateway ── supervisor ── upstream

The supervisor stands on both sides of the gateway: it hands the request in, and makes the calls that the gateway
makes of it. So it knows what the agent has, and holds what the upstream said. When the gateway dies, falls silent or
takes its time, the next gateway gets the same request and the recorded answers, and the reply goes on behind the last
byte that the agent has: the same input gives the same output. Without another gateway the upstream's own bytes go on
from there. Only a reply that the guard has cut must wait for a gateway. One that the gateway broke off because a tool
call looped, or because the upstream broke off, is broken off for the agent too, which asks again.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from millgate.errors import UpstreamError
from millgate.service.edge.reply import BROKEN_OFF, forwardable
from millgate.service.proxy.transport import (
    KEY_HEADERS,
    Address,
    Response,
    Timeouts,
    Transport,
    UpstreamRequest,
)
from millgate.service.wire import FIRST_ERROR, Headers
from millgate.wrap.gateways import NEVER_S, Gateway, GatewayPool
from millgate.wrap.recording import Recording
from millgate.wrap.reply import AgentReply
from millgate.wrap.spec import UPSTREAM

STEP_S = 0.05  # between two looks at what a gateway took of a turn: chosen to be shorter than a person notices
KEEP_ALIVE_S = 10.0
ATTEMPTS = 2  # gateways that are tried if the upstream's own bytes would do
# How long a cut reply waits for another gateway. Chosen, not measured: half of START_S (gateways.py), since a
# reserve is started in advance.
LAST_RESORT_S = 30.0
# How long the first calls wait for the first gateway, which loads while the agent starts: it takes 2 s of CPU, and this
# is five times that, for a busy machine. More patience waits longer.
FIRST_S = 10.0
CAPS = (402, 429)  # a cap that the user has set is reached: the one refusal that is meant
TURN_HEADER = b"millgate-turn"
NOT_SENT = (b"host", b"content-length", b"expect", TURN_HEADER)

Route = Literal["guarded", "resumed", "straight", "broken", "given up"]
"""How a turn was answered: by the gateway; by more than one; by the upstream directly; not to its end; not at all, for
the agent left before anything came.
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


class AgentTurn:
    """One model call."""

    def __init__(
        self,
        id: str,
        request: AgentRequest,
        reply: AgentReply,
        *,
        path: str,
        pool: GatewayPool,
        transport: Transport,
    ) -> None:
        self.id, self.request, self.reply = id, request, reply
        self.route: Route = "guarded"
        self.ending = ""
        """Why the agent has no answer: a status, or that the service was not reached; empty if it has one."""
        self.calls: list[Recording] = []
        self._path, self._pool, self._transport = path, pool, transport
        self._attempt = 0
        self._made = 0  # calls that the gateway at work has made
        self._gateway_s = 0.0
        self._refused = False
        self.gateway: Gateway | None = None

    async def serve(self) -> None:
        """Answer the agent."""
        try:
            while gateway := await self._next_gateway():
                if await self._try(gateway):
                    self._pool.note_success()
                    # all is there: what the gateway does now no longer matters
                    await self.reply.end()
                    return
                if self.reply.sent.endswith(
                    BROKEN_OFF
                ):  # the gateway means it, and so does the guard
                    await self.reply.fail(UpstreamError("a tool call looped"))
                    return
                if self._upstream_error():
                    break  # another gateway would only be told the same
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

    @property
    def name(self) -> str:
        """The turn and the attempt, by which the gateway's calls are known."""
        return f"{self.id}.{self._attempt}"

    def call(self, body: bytes) -> Recording:
        """The upstream's answer to a call of the gateway: the recorded one if it was made before."""
        at = self._made
        self._made += 1
        if at < len(self.calls) and self.calls[at].asked == body:
            return self.calls[at]
        for stale in self.calls[at:]:
            stale.sever()
        del self.calls[at:]
        return self._record(body)

    async def note_hang_up(self, recording: Recording, gateway: Gateway) -> None:
        """A gateway hung up on an answer: if it did so on purpose and not by dying, the upstream is stopped."""
        if await gateway.is_alive() and self.gateway is gateway:
            recording.sever()

    def _record(self, body: bytes) -> Recording:
        request = self.request.to_upstream(body, plain=True)
        self.calls.append(Recording(self._transport, request, body))
        return self.calls[-1]

    # Through a gateway

    async def _next_gateway(self) -> Gateway | None:
        """The gateway to try next; None: go straight to the upstream."""
        if self._refused:
            return None
        if self._can_go_straight():
            patience_s = self._pool.spec.patience_s
            await self._pool.wait_for_start(max(FIRST_S, patience_s))
            patient = self._attempt < ATTEMPTS and self._gateway_s < patience_s
            return self._pool.current if patient else None
        self._gateway_s = -LAST_RESORT_S
        return (
            await self._pool.wait_for_one(LAST_RESORT_S) if self._attempt < 2 * ATTEMPTS else None
        )

    async def _try(self, gateway: Gateway) -> bool:
        """Let a gateway answer; True if it answered the agent to the end."""
        self._attempt += 1
        # now, since an agent may hang up at the last event, before the end of its answer
        self.route = "guarded" if self._attempt == 1 else "resumed"
        self._made, self.gateway = 0, gateway
        gateway.begin_turn()
        relay = asyncio.ensure_future(self._relay(gateway))
        watch = asyncio.ensure_future(self._watch(gateway))
        try:
            await asyncio.wait({relay, watch}, return_when=asyncio.FIRST_COMPLETED)
            if relay.done() and not relay.result():
                await gateway.is_alive()  # a dead one shall not be tried again
            return relay.done() and relay.result()
        finally:
            self.gateway = None
            gateway.end_turn()
            relay.cancel()
            watch.cancel()
            await asyncio.wait({relay, watch})

    async def _watch(self, gateway: Gateway) -> None:
        """Return when the gateway has failed, or has used its time; waiting for the upstream does not count."""
        while self._gateway_s < self._pool.spec.patience_s:
            try:
                async with asyncio.timeout(STEP_S):
                    await gateway.failed.wait()
            except TimeoutError:
                under_way = any(not call.ended for call in self.calls[: self._made])
                if not under_way and not self.reply.waits_for_agent:
                    self._gateway_s += STEP_S
            else:
                return

    async def _relay(self, gateway: Gateway) -> bool:
        """The gateway's answer to the agent, behind what the agent has; whether it came to its end."""
        headers = forwardable(self.request.headers, (*NOT_SENT, *KEY_HEADERS))
        headers += [(TURN_HEADER, self.name.encode()), (b"x-millgate-upstream", UPSTREAM.encode())]
        headers += _millgate_headers(self.request.headers)
        try:
            response = await gateway.send(
                self.request.method, self._path, headers, self.request.body
            )
        except UpstreamError:
            return False
        try:
            if self._is_refusal(response.status):
                self._refused = True
                return False
            await self.reply.begin(response.status, response.headers)
            at = 0
            while data := await self._next(response):
                gateway.note_sign_of_life()
                known = bytes(self.reply.sent[at : at + len(data)])
                if not data.startswith(known):
                    return False  # not what the agent has: no one can go on from there
                if len(data) > len(known):
                    await self.reply.write(data[len(known) :])
                at += len(data)
        except UpstreamError:
            return False
        finally:
            await response.close()
        return at >= len(self.reply.sent)

    async def _next(self, response: Response) -> bytes:
        """The next bytes of a response; while none come, the agent gets keep-alives."""
        while (data := await response.read(KEEP_ALIVE_S)) is None:
            await self.reply.keep_alive()
        return data

    def _is_refusal(self, status: int) -> bool:
        """Whether this is an error of the gateway's own: neither the upstream's nor a cap that the user has set."""
        statuses = {call.status for call in self.calls[: self._made]}
        return status >= 400 and status not in CAPS and status not in statuses

    # Around it

    def _upstream_error(self) -> UpstreamError | None:
        """Why the last answer that the gateway asked for did not come, or not to its end; None if it did."""
        return self.calls[self._made - 1].error if self._made else None

    def _can_go_straight(self) -> bool:
        """Whether the upstream's own bytes can follow what the agent has."""
        sent = self.reply.sent
        if self.reply.response is None:
            return True
        if not self.calls:
            return False
        first = self.calls[0]
        return not first.severed and first.body.startswith(sent)

    async def _go_straight(self) -> None:
        """Answer with the upstream's own bytes, without a gateway."""
        error = self._upstream_error()
        if not self._can_go_straight():
            self.route = self.route if error else "broken"
            await self.reply.fail(error or UpstreamError("the gateway failed while it went on with an answer"))  # fmt: skip
            return
        self.route = self.route if error else "straight"
        first = self.calls[0] if self.calls and not self.calls[0].severed else None
        if first is None:
            first = self._record(self.request.body)
        try:
            await first.head()
            await self.reply.begin(first.status, first.headers)
            while data := await first.read(len(self.reply.sent)):
                await self.reply.write(data)
        except UpstreamError as error:
            self.ending = "" if first.status else NOT_REACHED
            await self.reply.fail(error)
            return
        await self.reply.end()


def _millgate_headers(headers: Headers) -> Headers:
    """The headers by which the agent tells Millgate what it wants."""
    return [
        (name, value)
        for name, value in headers
        if name.lower().startswith(b"x-millgate-") and name.lower() != b"x-millgate-upstream"
    ]
