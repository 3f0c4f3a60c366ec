"""Proxy: change one URL, and loops are cut as they stream.

Requests of the APIs that the guard knows go through the steps of `Proxy._answer`: context in, caps held, the guard on
what comes out. Everything else under /v1 that is not ours is passed on as it is. Each app here is an ASGI application.
"""

import asyncio
from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from millgate.calls.bugs import LOGGER, surviving
from millgate.circles.policy import CirclesPolicy
from millgate.errors import (
    BusyError,
    ConfigError,
    InputError,
    MillgateError,
    PartialCallError,
    UpstreamError,
)
from millgate.guard.dialects import dialect_for
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.error_codes import status_of
from millgate.guard.policy import GuardPolicy
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.body import ClientGone, read_apart, read_body
from millgate.service.edge.byte_budget import ByteBudget
from millgate.service.edge.problems import drop_traceback
from millgate.service.edge.reply import Reply, break_connection, run_while_connected
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import Caller
from millgate.service.proxy.answer import relay
from millgate.service.proxy.compaction_steps import observe_compaction, put_back, remember
from millgate.service.proxy.exchange import Exchange, Gate, Observer
from millgate.service.proxy.fuse_steps import fuse, settle
from millgate.service.proxy.passthrough import pass_on
from millgate.service.proxy.request import UnreadBody, unpack
from millgate.service.proxy.send import Upstreams, send
from millgate.service.proxy.sse import encode
from millgate.service.proxy.steps import (
    Settings,
    choose_upstream,
    end_turn,
    inject_context,
    judge_cache,
    prepare_request,
    read,
    recall,
)
from millgate.service.proxy.transport import UpstreamReset, header
from millgate.service.wire import GONE
from millgate.sessions.compaction.policy import CompactionPolicy
from millgate.sessions.conversation import Conversations
from millgate.sessions.folding.policy import FoldPolicy
from millgate.types.policy import ProxyPolicy, ServicePolicy

Answer = Callable[[Exchange, bytes], Coroutine[Any, Any, None]]


class Proxy:
    """The proxy in front of the models.

    `gate_for` gives a caller's Millgate, which builds contexts and counts spending; without it the proxy does neither.
    `observer` gets every exchange when it is over. `circles` is the policy for agents that repeat their tool calls.
    `fold` says whose requests are folded.
    `remembered` keeps what later requests of a conversation need, `folds` from where on each is folded. `budget`
    bounds what answers hold in memory, and `body_bytes` a request.
    """

    def __init__(
        self,
        policy: ProxyPolicy,
        guard: GuardPolicy | None = None,
        *,
        circles: CirclesPolicy | None = None,
        fold: FoldPolicy | None = None,
        gate_for: Callable[[Caller], Gate] | None = None,
        observer: Observer | None = None,
        compaction: CompactionPolicy | None = None,
        remembered: ConversationState | None = None,
        folds: ConversationState | None = None,
        budget: ByteBudget | None = None,
        body_bytes: int | None = None,
    ) -> None:
        self.policy, self.guard = policy, guard or GuardPolicy()
        _check_rescues(self.guard, policy)
        self.upstreams = Upstreams(policy, budget=budget)
        self._settings = Settings(
            policy,
            circles or CirclesPolicy(),
            fold or FoldPolicy(),
            compaction or CompactionPolicy(),
        )
        self._gate_for, self._observer = gate_for, observer
        self._conversations, self._remembered = Conversations(), remembered or ConversationState()
        self._folds = folds or self._remembered
        self._body_bytes = body_bytes or ServicePolicy().body_bytes

    async def close(self) -> None:
        """Close the connections to the upstreams."""
        await self.upstreams.close()
        self._remembered.close()
        self._folds.close()

    def app_for(self, kind: type[Dialect]) -> ASGIApp:
        """The application for the path of an API."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["method"] != "POST":
                await self.rest(scope, receive, send)
                return
            call = ModelCall(kind.path, kind.operation)
            exchange = Exchange.begin(scope, send, kind(), call, self._gate_for)
            await self._serve(scope, receive, exchange, self._answer)

        return app

    async def rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Everything else. A WebSocket is refused, so that clients that try one first go on over HTTP."""
        dialect = dialect_for(scope["path"])
        if header(scope["headers"], b"upgrade").strip().lower() == b"websocket":
            reply = Reply(send)
            error = InputError("WebSockets are not served here", hint="use HTTP and server-sent events")  # fmt: skip
            reply.put_json(
                426, dialect.error(error), {"upgrade": "HTTP/1.1", "connection": "close"}
            )
            await reply.end()
            return
        exchange = Exchange.begin(scope, send, dialect, ModelCall("/v1/*"), self._gate_for)
        await self._serve(scope, receive, exchange, self._pass_on)

    async def _answer(self, exchange: Exchange, body: bytes) -> None:
        """One request to a model and its answer, step by step; `_serve` reports it and ends the reply.

        A bug in what we do to a call does not cost the client its answer: the call goes on without that. So does one
        whose body the upstream may read and we do not.
        """
        is_read = False
        with surviving("reading a model call", but=MillgateError):
            try:
                await read(exchange, body, self.policy, self._remembered)
                is_read = True
            except UnreadBody as error:
                exchange.call.unwatched = error.message
                exchange.reply_headers["x-millgate-guard-reason"] = error.message
        if not is_read:
            await self._pass_on(exchange, body)
            return
        choose_upstream(exchange, self.upstreams)
        await recall(exchange, self._conversations, self._remembered)
        await observe_compaction(exchange, self._conversations, self._settings.compaction)
        await inject_context(exchange, self._conversations, self._remembered, self._observer)
        await put_back(exchange, self._remembered, self._observer, self._settings.compaction)
        await prepare_request(exchange, self._conversations, self._folds, self._settings)
        if exchange.call.circles.ended:
            await end_turn(exchange)
            return
        await fuse(exchange)
        try:
            response = await send(exchange, self.upstreams, self.guard)
            await relay(exchange, response, self.upstreams, self._remembered)
        finally:
            # A client that goes away cancels the steps; what its call spent is booked all the same.
            judge_cache(exchange)
            await asyncio.shield(remember(exchange, self._conversations, self._remembered))
            with surviving("booking what a model call spent"):
                await asyncio.shield(settle(exchange))

    async def _pass_on(self, exchange: Exchange, body: bytes) -> None:
        """A request of another API. /v1/responses/ID and paths below it get the id that the upstream knows."""
        start = f"{exchange.dialect.path}/"
        if exchange.dialect.reference_field and exchange.raw_path.startswith(start):
            id, slash, rest = exchange.raw_path.removeprefix(start).partition("/")
            stored = await self._remembered.stored_answer(exchange.caller.tenant, id)
            exchange.raw_path = f"{start}{stored}{slash}{rest}"
        try:
            await pass_on(exchange, body, self.upstreams)
        finally:
            await asyncio.shield(settle(exchange))

    async def _serve(
        self, scope: Scope, receive: Receive, exchange: Exchange, answer: Answer
    ) -> None:
        """Read the body, answer, say what goes wrong in the format of the API, and report the exchange.

        The exchange is reported before the end of its reply: a client that has the reply finds the call counted.
        """
        reply, call, last = exchange.reply, exchange.call, b""
        try:
            body = await read_body(
                scope, receive, limit=self._body_bytes, setting="service.body_bytes"
            )
            exchange.headers, body = await read_apart(
                body, unpack, exchange.headers, body, limit=self._body_bytes
            )
            await run_while_connected(receive, answer(exchange, body))
        except ClientGone:
            if not reply.begun:
                reply.status = GONE
            self._report(exchange)
            return
        except PartialCallError as error:
            call.note_error(error)
            self._report(exchange)
            await reply.break_off()
            await break_connection(exchange.close_connection, receive)
            return
        except MillgateError as error:
            drop_traceback(error)
            call.note_error(error)
            if reply.begun and (isinstance(error, UpstreamError) or not reply.takes_events):
                # Agents ask again after a broken connection, not after an error event. An error in the middle of JSON
                # would be read as a part of it.
                LOGGER.warning("the model call %s was broken off: %s", call.id, error)
                self._report(exchange)
                is_reset = isinstance(error, UpstreamReset)
                await break_connection(
                    exchange.reset_connection if is_reset else exchange.close_connection, receive
                )
                return
            last = _write_error(exchange, error)
        except BaseException as error:
            call.note_error(error)
            self._report(exchange)
            raise
        self._report(exchange)
        await reply.end(last)

    def _report(self, exchange: Exchange) -> None:
        exchange.call.status = exchange.reply.status
        exchange.call.end(exchange.reply.begun_at)
        if self._observer is not None:
            with surviving("counting or tracing a model call"):
                self._observer.observe(exchange)


def _check_rescues(guard: GuardPolicy, policy: ProxyPolicy) -> None:
    by_model = [str(changes.get("rescue_upstream", "")) for changes in guard.models.values()]
    for rescue in (guard.rescue_upstream, *by_model):
        if rescue and rescue not in policy.upstreams:
            raise ConfigError(
                f"guard.rescue_upstream is {rescue!r}, which is not an upstream",
                hint=f"upstreams: {', '.join(sorted(policy.upstreams)) or 'none'}",
            )


def _write_error(exchange: Exchange, error: MillgateError) -> bytes:
    """The last event of a stream that has begun; else nothing, and the whole reply is the error."""
    dialect = exchange.dialect
    if exchange.reply.begun:
        event = dialect.error_event(error)
        return encode(event, name=dialect.event_name(event))
    headers = {"x-millgate-call": exchange.call.id}  # so that `millgate why` can say what happened
    if isinstance(error, BusyError):
        headers["retry-after"] = str(ceil(error.retry_after))
    body = dialect.error(error, getattr(error, "param", None))
    exchange.reply.put_json(status_of(error), body, headers)
    return b""
