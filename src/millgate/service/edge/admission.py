"""Admission: what every request passes before the app, as plain ASGI middleware.

request id ─▶ caller ─▶ limits ─▶ body ─▶ turn ─▶ the app, all under a deadline. Afterwards the observers (log, metrics,
spans) see the request. One that its deadline cuts off gets an error response, unless its response has begun; one that
goes on after its key was revoked is cut off in the same way (`end_when_revoked`). At shutdown
`InFlight.drain` shortens the deadlines of running requests, and new ones are refused.

A body is held in a share of the byte budget, and a large answer too, until the client has read it. Large bodies are
worked on one at a time: threads that compute share one interpreter, and several would keep everybody else from it. A
request that is cut off keeps both, and is counted as under way, until its threads have ended (`calls/pool.py`).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millgate.calls.bugs import surviving
from millgate.calls.pool import follow_threads
from millgate.errors import AccessError, BusyError, ClosingError, DeadlineError, MillgateError
from millgate.service.edge.auth import Auth
from millgate.service.edge.body import BufferedReceive, ClientGone, read_body, weigh
from millgate.service.edge.byte_budget import ORDINARY, ByteBudget, Share
from millgate.service.edge.limits import CallerLimits
from millgate.service.edge.paths import is_open, is_proxied, set_version
from millgate.service.edge.problems import refusal
from millgate.service.edge.reply import BREAK
from millgate.service.observe.request_state import RequestState, start
from millgate.types.policy import ServicePolicy

# Load balancers and tools may read these without a key.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
# Bytes of an answer that are sent at once: four times what the connection buffers before it makes us wait.
PIECE = 1 << 18
# A text that is kept is cut and indexed: that takes eight times the CPU and memory that a window of its size takes.
KEEPING_PATHS = ("/v1/documents", "/v1/turns", "/mcp")
KEEPING = 8
# A stream may go on for many minutes, so its caller is looked up this often.
REVOCATION_CHECK_S = 5.0

Observer = Callable[[RequestState, Scope], None]
ErrorResponse = Callable[[MillgateError, Scope, str], ASGIApp]
"""An error as the clients of a path expect it; gets the error, the scope and the request id."""


class InFlight:
    """The requests being served, and whether new ones are accepted."""

    def __init__(self) -> None:
        self.draining = False
        self.timeouts: set[asyncio.Timeout] = set()

    def drain(self, within_s: float) -> None:
        """Accept no new request; running ones must end within some seconds."""
        self.draining = True
        last = asyncio.get_running_loop().time() + within_s
        for timeout in self.timeouts:
            when = timeout.when()
            if not timeout.expired() and (when is None or when > last):
                timeout.reschedule(last)


@dataclass(eq=False)
class Admission:
    """The middleware."""

    app: ASGIApp
    policy: ServicePolicy
    auth: Auth
    limits: CallerLimits
    budget: ByteBudget
    in_flight: InFlight
    observers: Sequence[Observer] = ()
    error_response: ErrorResponse = lambda error, _, request_id: refusal(error, request_id)
    large_work: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Anything else (lifespan) goes straight to the app."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        set_version(scope)
        state = start(scope)
        sender = _Sender(send, state)
        try:
            await self._serve_in_time(scope, receive, sender, state)
        finally:
            state.status = state.status or 500
            for observe in self.observers:
                with surviving("counting or logging a request"):
                    observe(state, scope)

    async def _serve_in_time(
        self, scope: Scope, receive: Receive, send: "_Sender", state: RequestState
    ) -> None:
        state.deadline = timeout = asyncio.timeout(self.policy.deadline_s)
        try:
            async with timeout:
                self.in_flight.timeouts.add(timeout)
                await self._serve_admitted(scope, receive, send, state)
        except MillgateError as error:
            await self._refuse(error, scope, send, state)
        except TimeoutError:
            if not timeout.expired():
                raise
            await self._refuse(state.cut_off or self._cut_off(), scope, send, state)
        finally:
            self.in_flight.timeouts.discard(timeout)

    async def _serve_admitted(
        self, scope: Scope, receive: Receive, send: "_Sender", state: RequestState
    ) -> None:
        if scope["path"] in OPEN_PATHS or is_open(scope["path"]):
            await self.app(scope, receive, send)
            return
        if self.in_flight.draining:
            raise _closing()
        state.caller = await self.auth.caller(scope)
        await self.limits.take_shared(state.caller)
        proxied = is_proxied(scope["path"])
        # until the threads of the request have ended, which may be after its answer
        held = ExitStack()
        with follow_threads(state.caller.tenant) as work:
            try:
                held.enter_context(self.limits.hold(state.caller, proxied=proxied))
                share = held.enter_context(self.budget.share())
                held.callback(send.turn.close)
                if not proxied:
                    send.share = share
                buffered, weight = await self._read_body(scope, receive, share)
                factor = KEEPING if scope["path"] in KEEPING_PATHS else 1
                # A call to a model mostly waits for it.
                if not proxied and weight * factor > ORDINARY:
                    await self._wait_for_turn(send.turn)
                with ExitStack() as meanwhile:
                    if state.caller.key:
                        watch = asyncio.create_task(end_when_revoked(self.auth, scope, state))
                        meanwhile.callback(watch.cancel)
                    await self.app(scope, buffered, send)
                if send.refusal is not None:
                    raise send.refusal
            except ClientGone:
                state.status = 499  # as nginx logs it; the client is gone
            finally:
                work.end(held.close)

    async def _read_body(
        self, scope: Scope, receive: Receive, share: Share
    ) -> tuple[BufferedReceive, int]:
        """The body, held in a share of the budget with the values that it will be parsed into, and its weight."""
        limit = self.policy.body_bytes
        body = await read_body(
            scope, receive, limit=limit, setting="service.body_bytes", share=share
        )
        weight = weigh(body)
        await share.hold(weight - len(body))
        return BufferedReceive(body, receive), weight  # its reader may free the body

    async def _wait_for_turn(self, turn: ExitStack) -> None:
        """Wait until no other large body is worked on, for half the deadline at most: the work takes its time too."""
        wait_s = self.policy.deadline_s / 2
        try:
            async with asyncio.timeout(wait_s):
                await self.large_work.acquire()
        except TimeoutError:
            raise BusyError(
                f"large requests are worked on one at a time, and this one waited {wait_s:g} seconds",
                retry_after=1.0,
                hint="try again, or send less; service.deadline_s sets twice the wait",
            ) from None
        turn.callback(self.large_work.release)

    def _cut_off(self) -> MillgateError:
        """Why a request did not end in time: the service closes, or the deadline passed."""
        if self.in_flight.draining:
            return _closing()
        return DeadlineError(
            f"no answer within {self.policy.deadline_s:g} seconds",
            hint="ask for less; the limit is service.deadline_s",
        )

    async def _refuse(
        self, error: MillgateError, scope: Scope, send: "_Sender", state: RequestState
    ) -> None:
        send.refusal = None
        # Once the response has begun, only a broken connection can tell the client.
        if send.started:
            close = scope.get("extensions", {}).get(BREAK, {}).get("close")
            if close is None:
                raise error
            close()
            await asyncio.sleep(0)  # the server sees that it is closed, and does not report a bug
            return
        await self.error_response(error, scope, state.id)(scope, _receive_disconnect, send)


class _Sender:
    """Sends messages, adds the request id, and records the status and whether the response has begun.

    A large answer takes the place of its request's body in the share; one that does not fit becomes a `refusal`. It
    goes out a piece at a time, each when the client has read the one before: so the request is under way, and holds its
    share, until its answer is read. A client may take its time for that: the deadline is for making the answer, and
    `protocol.py` cuts off a client that stops reading.
    """

    def __init__(self, send: Send, state: RequestState) -> None:
        self._send = send
        self._state = state
        self.started = False
        self.share: Share | None = None  # of a model call, the proxy counts the answer
        self.turn = ExitStack()  # gives back the turn of a large body
        self.refusal: BusyError | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._reserve(message)
        if self.refusal is not None:
            return
        if message["type"] == "http.response.start":
            self.started = True
            self._state.status = message["status"]
            headers = list(message.get("headers", ()))
            # an upstream's own id stays: its service finds the call by it, and ours is in x-millgate-call
            if not any(name.lower() == b"x-request-id" for name, _ in headers):
                headers.append((b"x-request-id", self._state.id.encode()))
            message["headers"] = headers
        body, more = message.get("body", b""), message.get("more_body", False)
        if len(body) <= PIECE:
            await self._send(message)
            return
        for at in range(0, len(body), PIECE):
            part = {"body": body[at : at + PIECE], "more_body": more or at + PIECE < len(body)}
            await self._send({**message, **part})

    async def _reserve(self, start: Message) -> None:
        size = int(dict(start.get("headers", ())).get(b"content-length", b"0"))
        if self.share is None or size <= PIECE:
            return
        self.turn.close()  # the work is done
        deadline = self._state.deadline
        if deadline is not None and not deadline.expired():
            deadline.reschedule(None)
        self.share.drop(self.share.held)
        try:
            await self.share.hold(size)
        except BusyError as error:
            self.refusal = error


async def _receive_disconnect() -> Message:
    return {"type": "http.disconnect"}


def _closing() -> MillgateError:
    return ClosingError("the service is shutting down", hint="ask another one, or try again soon")


async def end_when_revoked(auth: Auth, scope: Scope, state: RequestState) -> None:
    """Look the caller up every few seconds while a request is served; once its key is not valid, cut it off."""
    while True:
        await asyncio.sleep(REVOCATION_CHECK_S)
        try:
            await auth.caller(scope)
        except AccessError as error:
            state.cut_off = error
            if state.deadline is not None:
                state.deadline.reschedule(asyncio.get_running_loop().time())
            return
        except MillgateError:
            continue  # the store is away for the moment
