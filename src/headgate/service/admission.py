"""Door: what every request passes, as plain ASGI.

id ─▶ who asks ─▶ limits ─▶ body ─▶ the app, all under a deadline; then one look back for log, metrics and spans.
A request that a deadline cuts is answered, as long as nothing of its answer was sent. At shutdown `drain` shortens
the deadline of what is under way and turns new requests away.
"""

import asyncio
from collections.abc import Callable, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.errors import ClosingError, DeadlineError, HeadgateError, LimitError
from headgate.policy import ServicePolicy
from headgate.service.auth import Auth
from headgate.service.limits import Limits
from headgate.service.problems import refusal
from headgate.service.request_state import Visit, begin

OPEN = frozenset(
    {"/healthz", "/readyz", "/openapi.json"}
)  # what a load balancer or a tool may read

Watch = Callable[[Visit, Scope], None]
Shape = Callable[[HeadgateError, Scope, str], ASGIApp]
"""An error as the path's clients know it, with the id of the request."""


class Desk:
    """What is under way, and whether more is taken on."""

    def __init__(self) -> None:
        self.draining = False
        self._under_way: set[asyncio.Timeout] = set()

    def enter(self, timeout: asyncio.Timeout) -> None:
        """Count a request under its timeout."""
        self._under_way.add(timeout)

    def leave(self, timeout: asyncio.Timeout) -> None:
        """A request is done."""
        self._under_way.discard(timeout)

    def drain(self, within_s: float) -> None:
        """Take nothing more on; what is under way must end within some seconds."""
        self.draining = True
        last = asyncio.get_running_loop().time() + within_s
        for timeout in self._under_way:
            when = timeout.when()
            if not timeout.expired() and (when is None or when > last):
                timeout.reschedule(last)


class Door:
    """The middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        policy: ServicePolicy,
        auth: Auth,
        limits: Limits,
        desk: Desk,
        watches: Sequence[Watch] = (),
        shape: Shape = lambda error, _, request_id: refusal(error, request_id),
    ) -> None:
        self._app = app
        self._policy = policy
        self._auth = auth
        self._limits = limits
        self._desk = desk
        self._watches = watches
        self._shape = shape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; anything else (lifespan) passes untouched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = begin(scope)
        sender = _Sender(send, visit)
        try:
            await self._timed(scope, receive, sender, visit)
        finally:
            visit.status = visit.status or 500
            for watch in self._watches:
                watch(visit, scope)

    async def _timed(self, scope: Scope, receive: Receive, send: "_Sender", visit: Visit) -> None:
        timeout = asyncio.timeout(self._policy.deadline_s)
        try:
            async with timeout:
                self._desk.enter(timeout)
                visit.deadline = timeout
                await self._admitted(scope, receive, send, visit)
        except HeadgateError as error:
            await self._refuse(error, scope, send, visit)
        except TimeoutError:
            if not timeout.expired():
                raise
            await self._refuse(self._late(), scope, send, visit)
        finally:
            self._desk.leave(timeout)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        if scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        if self._desk.draining:
            raise _closing()
        visit.caller = await self._auth.caller(scope)
        with self._limits.hold(visit.caller):
            body = await self._body(scope, receive)
            await self._app(scope, _Once(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, up to the limit."""
        most = self._policy.body_bytes
        said = dict(scope["headers"]).get(b"content-length", b"")
        size = int(said) if said.isdigit() else 0
        if size > most:
            raise self._too_large()
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise self._too_large()
            more = message.get("more_body", False)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _too_large(self) -> LimitError:
        most = self._policy.body_bytes
        return LimitError(
            f"the body is larger than {most:,} bytes", hint="the limit is service.body_bytes"
        )

    def _late(self) -> HeadgateError:
        if self._desk.draining:
            return _closing()
        return DeadlineError(
            f"no answer within {self._policy.deadline_s:g} seconds",
            hint="ask for less; the limit is service.deadline_s",
        )

    async def _refuse(
        self, error: HeadgateError, scope: Scope, send: "_Sender", visit: Visit
    ) -> None:
        if send.started:  # too late for an answer: the connection breaks, and the caller sees it
            raise error
        await self._shape(error, scope, visit.id)(scope, _nothing, send)


class _Sender:
    """Sends, and knows whether it has begun to."""

    def __init__(self, send: Send, visit: Visit) -> None:
        self._send = send
        self._visit = visit
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._visit.status = message["status"]
            message["headers"] = [
                *message.get("headers", ()),
                (b"x-request-id", self._visit.id.encode()),
            ]
        await self._send(message)


class _Once:
    """Gives a body that was read already; after it, what the connection says."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def _closing() -> HeadgateError:
    return ClosingError("the service is shutting down", hint="ask another one, or try again soon")
