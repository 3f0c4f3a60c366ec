"""Admission: what every request passes before the app, as plain ASGI middleware.

request id ─▶ caller ─▶ limits ─▶ body ─▶ turn ─▶ the app, all under a deadline. Afterwards the observers (log, metrics,
spans) see the request. One that its deadline cuts off gets an error response, unless its response has begun; one that
goes on after its key was revoked is cut off in the same way (`revocation.py`). At shutdown
`InFlight.drain` shortens the deadlines of running requests, and new ones are refused.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.errors import ClosingError, DeadlineError, HeadgateError
from headgate.policy import ServicePolicy
from headgate.service.auth import Auth
from headgate.service.body import BufferedReceive, ClientGone, read_body
from headgate.service.body_room import ORDINARY, BodyRoom, Turns, weigh, weigh_work
from headgate.service.limits import CallerLimits
from headgate.service.malloc import give_back
from headgate.service.paths import is_open, is_proxied
from headgate.service.problems import let_go, refusal
from headgate.service.request_state import Caller, RequestState, start
from headgate.service.revocation import end_when_revoked
from headgate.thread_work import follow_threads

# Load balancers and tools may read these without a key.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})

Observer = Callable[[RequestState, Scope], None]
ErrorResponse = Callable[[HeadgateError, Scope, str], ASGIApp]
"""An error as the clients of a path expect it; gets the error, the scope and the request id."""


class InFlight:
    """The requests being served, and whether new ones are accepted."""

    def __init__(self) -> None:
        self.draining = False
        self._timeouts: set[asyncio.Timeout] = set()

    def add(self, timeout: asyncio.Timeout) -> None:
        """Count a request by its timeout."""
        self._timeouts.add(timeout)

    def remove(self, timeout: asyncio.Timeout) -> None:
        """Count a request no longer."""
        self._timeouts.discard(timeout)

    def drain(self, within_s: float) -> None:
        """Accept no new request; running ones must end within some seconds."""
        self.draining = True
        last = asyncio.get_running_loop().time() + within_s
        for timeout in self._timeouts:
            when = timeout.when()
            if not timeout.expired() and (when is None or when > last):
                timeout.reschedule(last)


class Admission:
    """The middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        policy: ServicePolicy,
        auth: Auth,
        limits: CallerLimits,
        in_flight: InFlight,
        observers: Sequence[Observer] = (),
        error_response: ErrorResponse = lambda error, _, request_id: refusal(error, request_id),
    ) -> None:
        self._app = app
        self._policy = policy
        self._auth = auth
        self._limits = limits
        self._in_flight = in_flight
        self._observers = observers
        self._error_response = error_response
        # Calls to models have a room of their own.
        self._own, self._proxied = BodyRoom(policy.body_bytes), BodyRoom(policy.body_bytes)
        self._turns = Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Anything else (lifespan) goes straight to the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = start(scope)
        sender = _Sender(send, state)
        try:
            await self._serve_in_time(scope, receive, sender, state)
        finally:
            state.status = state.status or 500
            for observe in self._observers:
                observe(state, scope)

    async def _serve_in_time(
        self, scope: Scope, receive: Receive, send: "_Sender", state: RequestState
    ) -> None:
        timeout = asyncio.timeout(self._policy.deadline_s)
        try:
            async with timeout:
                self._in_flight.add(timeout)
                state.deadline = timeout
                await self._admit(scope, receive, send, state)
        except HeadgateError as error:
            await self._refuse(error, scope, send, state)
        except TimeoutError:
            if not timeout.expired():
                raise
            await self._refuse(state.cut_off or self._cut_off(), scope, send, state)
        finally:
            self._in_flight.remove(timeout)

    async def _admit(self, scope: Scope, receive: Receive, send: Send, state: RequestState) -> None:
        if scope["path"] in OPEN_PATHS or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        if self._in_flight.draining:
            raise _closing()
        state.caller = await self._auth.caller(scope)
        await self._limits.take_shared(state.caller)
        proxied = is_proxied(scope["path"])
        held = ExitStack()
        with self._limits.hold(state.caller, proxied=proxied), follow_threads() as work:
            try:
                weight, buffered = await self._read_body(scope, receive, state.caller, held)
                # A call to a model need not wait for a turn.
                work_weight = 0 if proxied else weigh_work(scope["path"], weight)
                held.callback(await self._turns.wait(work_weight))
                if max(weight, work_weight) > ORDINARY:
                    held.callback(give_back)
                with end_when_revoked(self._auth, scope, state):
                    await self._app(scope, buffered, send)
            except ClientGone:
                state.status = 499  # as other servers log it; nobody receives it
            finally:
                work.end(held.close)

    async def _read_body(
        self, scope: Scope, receive: Receive, caller: Caller, held: ExitStack
    ) -> tuple[int, BufferedReceive]:
        """The body, which takes its share of the room until that is given back, and what it weighs."""
        proxied = is_proxied(scope["path"])
        room = self._proxied if proxied else self._own
        take = held.enter_context(room.share((caller.tenant, caller.key)))
        body = await read_body(
            scope, receive, limit=self._policy.body_bytes, setting="service.body_bytes", take=take
        )
        weight = weigh(body)
        # A call to a model lasts long, and there are many: of its body only what swells is held on.
        take(weight - (2 if proxied else 1) * len(body))
        return weight, BufferedReceive(body, receive)  # whoever reads it may let it go

    def _cut_off(self) -> HeadgateError:
        """Why a request did not end in time: the service closes, or the deadline passed."""
        if self._in_flight.draining:
            return _closing()
        return DeadlineError(
            f"no answer within {self._policy.deadline_s:g} seconds",
            hint="ask for less; the limit is service.deadline_s",
        )

    async def _refuse(
        self, error: HeadgateError, scope: Scope, send: "_Sender", state: RequestState
    ) -> None:
        let_go(error)
        # Once the response has begun, only a broken connection can tell the client.
        if send.started:
            raise error
        await self._error_response(error, scope, state.id)(scope, _receive_disconnect, send)


class _Sender:
    """Sends messages, adds the request id, and records the status and whether the response has begun."""

    def __init__(self, send: Send, state: RequestState) -> None:
        self._send = send
        self._state = state
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._state.status = message["status"]
            message["headers"] = [
                *message.get("headers", ()),
                (b"x-request-id", self._state.id.encode()),
            ]
        await self._send(message)


async def _receive_disconnect() -> Message:
    return {"type": "http.disconnect"}


def _closing() -> HeadgateError:
    return ClosingError("the service is shutting down", hint="ask another one, or try again soon")
