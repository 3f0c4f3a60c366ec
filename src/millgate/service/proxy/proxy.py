"""Proxy: change one URL, and loops are cut as they stream.

Requests of the APIs that the guard knows go through the steps of `Proxy._answer`: context in, caps held, the guard on
what comes out. Everything else under /v1 that is not ours is passed on as it is. Each app here is an ASGI application.

The list of models is that of all upstreams, each with those that requests would really reach there. A client's own key
then goes to no upstream: it is meant for one of them, but the request does not say which.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from math import ceil
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from millgate.calls.bugs import LOGGER, surviving
from millgate.errors import (
    BusyError,
    ConfigError,
    InputError,
    MillgateError,
    NotFound,
    PartialCallError,
    UpstreamError,
)
from millgate.guard.dialects import dialect_for
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.error_codes import status_of
from millgate.service.edge.body import ClientGone, read_apart, read_body
from millgate.service.edge.problems import drop_traceback
from millgate.service.edge.reply import Reply, break_connection, run_while_connected
from millgate.service.observe.model_call import ModelCall
from millgate.service.proxy.answer import copy, relay
from millgate.service.proxy.compaction_steps import observe_compaction, put_back, remember
from millgate.service.proxy.exchange import Exchange, ProxyState
from millgate.service.proxy.http_client import UpstreamReset, header, read_all
from millgate.service.proxy.request import UnreadBody, fields_of, parse_options, unpack
from millgate.service.proxy.send import ask, send
from millgate.service.proxy.sse import encode
from millgate.service.proxy.steps import (
    choose_upstream,
    end_turn,
    fuse,
    fuse_passed_on,
    inject_context,
    judge_cache,
    prepare_request,
    read,
    recall,
    settle,
)
from millgate.service.wire import GONE, Headers
from millgate.text.bounded_json import loads
from millgate.types.check import check_length
from millgate.types.lengths import NAME_CHARS

Answer = Callable[[Exchange, bytes], Coroutine[Any, Any, None]]
MODELS = "/v1/models"
MODELS_BYTES = 8_000_000  # of a list of models: ten times the longest that aggregators send


class Proxy(ProxyState):
    """The proxy in front of the models."""

    def __post_init__(self) -> None:
        super().__post_init__()
        by_model = [changes.get("rescue_upstream") for changes in self.guard.models.values()]
        for rescue in (self.guard.rescue_upstream, *by_model):
            if rescue and rescue not in self.policy.upstreams:
                raise ConfigError(
                    f"guard.rescue_upstream is {rescue!r}, which is not an upstream",
                    hint=f"upstreams: {', '.join(sorted(self.policy.upstreams)) or 'none'}",
                )

    async def close(self) -> None:
        """Close the connections to the upstreams."""
        await self.upstreams.close()
        self.remembered.close()
        if self.folds is not None:
            self.folds.close()

    def app_for(self, kind: type[Dialect]) -> ASGIApp:
        """The application for the path of an API."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["method"] != "POST":
                await self.rest(scope, receive, send)
                return
            call = ModelCall(kind.path, kind.operation)
            exchange = Exchange.begin(scope, send, kind(), call, self)
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
        exchange = Exchange.begin(scope, send, dialect, ModelCall("/v1/*"), self)
        await self._serve(scope, receive, exchange, self._pass_on)

    async def _answer(self, exchange: Exchange, body: bytes) -> None:
        """One request to a model and its answer, step by step; `_serve` reports it and ends the reply.

        A bug in what we do to a call does not cost the client its answer: the call goes on without that. So does one
        whose body the upstream may read and we do not.
        """
        is_read = False
        with surviving("reading a model call", but=MillgateError):
            try:
                await read(exchange, body)
                is_read = True
            except UnreadBody as error:
                exchange.call.unwatched = error.message
                exchange.reply_headers["x-millgate-guard-reason"] = error.message
        if not is_read:
            await self._pass_on(exchange, body)
            return
        choose_upstream(exchange)
        await recall(exchange)
        await observe_compaction(exchange)
        await inject_context(exchange)
        await put_back(exchange)
        await prepare_request(exchange)
        if exchange.call.circles.ended:
            await end_turn(exchange)
            return
        await fuse(exchange)
        try:
            response = await send(exchange)
            await relay(exchange, response)
        finally:
            # A client that goes away cancels the steps; what its call spent is booked all the same.
            judge_cache(exchange)
            await asyncio.shield(remember(exchange))
            with surviving("booking what a model call spent"):
                await asyncio.shield(settle(exchange))

    async def _pass_on(self, exchange: Exchange, body: bytes) -> None:
        """A request of another API. /v1/responses/ID and paths below it get the id that the upstream knows."""
        start = f"{exchange.dialect.path}/"
        if exchange.dialect.reference_field and exchange.raw_path.startswith(start):
            id, slash, rest = exchange.raw_path.removeprefix(start).partition("/")
            stored = await self.remembered.stored_answer(exchange.caller.tenant, id)
            exchange.raw_path = f"{start}{stored}{slash}{rest}"
        try:
            await pass_on(exchange, body)
        finally:
            await asyncio.shield(settle(exchange))

    async def _serve(
        self, scope: Scope, receive: Receive, exchange: Exchange, answer: Answer
    ) -> None:
        """Read the body, answer, say what goes wrong in the format of the API, and report the exchange.

        The exchange is reported before the end of its reply: a client that has the reply finds the call counted.
        """
        reply, call, limit, last = exchange.reply, exchange.call, self.body_bytes, b""
        try:
            body = await read_body(scope, receive, limit=limit, setting="service.body_bytes")
            exchange.headers, body = await read_apart(
                body, unpack, exchange.headers, body, limit=limit
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
            await break_connection(exchange.breaks.get("close"), receive)
            return
        except MillgateError as error:
            drop_traceback(error)
            call.note_error(error)
            if reply.begun and (isinstance(error, UpstreamError) or not reply.takes_events):
                # Agents ask again after a broken connection, not after an error event. An error in the middle of JSON
                # would be read as a part of it.
                LOGGER.warning("the model call %s was broken off: %s", call.id, error)
                self._report(exchange)
                how = "reset" if isinstance(error, UpstreamReset) else "close"
                await break_connection(exchange.breaks.get(how), receive)
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
        if self.observer is not None:
            with surviving("counting or tracing a model call"):
                self.observer.observe(exchange)


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


# What passes as it is


async def pass_on(exchange: Exchange, body: bytes) -> None:
    """Send one request of another API to its upstream, and the answer back."""
    upstreams, call, path = exchange.proxy.upstreams, exchange.call, exchange.path
    several = len(upstreams.policy.upstreams) > 1
    named = parse_options(exchange.headers, upstreams.policy).upstream
    if path == MODELS and exchange.method == "GET" and several and not named:
        await _list_models(exchange)
        return
    model = await read_apart(body, _model_of, path, exchange.headers, body)
    try:
        call.upstream, upstream = upstreams.find(model, named)
    except NotFound:
        if model:
            raise
        call.upstream, upstream = next(iter(upstreams.policy.upstreams.items()))
    call.model, call.server = model, upstream.url
    await fuse_passed_on(exchange, body)
    # A request that names neither model nor upstream may be for any of several: none gets the client's key.
    unclear, counted = several and not (model or named), exchange.hold is not None
    response = await ask(exchange, upstream, body, own_key_only=unclear, plain=counted)
    call.answered = response.status == 200
    exchange.reply_headers |= {"x-millgate-upstream": call.upstream, "x-millgate-guard": "off"}
    # what is free, as counting tokens, spends none of what it says
    await copy(exchange, response, reads=bool(exchange.hold and exchange.hold.amount.tokens))


def _model_of(path: str, headers: Headers, body: bytes) -> str:
    """The model that a request names in its path or body, if it names one."""
    if path.startswith(f"{MODELS}/"):
        return path.removeprefix(f"{MODELS}/")
    model = fields_of(headers, body).get("model")
    if not isinstance(model, str):
        return ""
    check_length("model", model, NAME_CHARS)
    return model


async def _list_models(exchange: Exchange) -> None:
    """The models of all upstreams; one that does not answer is left out and named."""
    named = exchange.proxy.policy.upstreams
    lists = await asyncio.gather(*(_models_of(exchange, name) for name in named))
    failed = [name for name, rows in zip(named, lists, strict=True) if rows is None]
    if len(failed) == len(named):
        raise UpstreamError("no upstream listed its models", hint=f"asked: {', '.join(named)}")
    rows = {row["id"]: row for found in lists for row in found or ()}
    headers = {"x-millgate-degraded": f"models: {', '.join(failed)}"} if failed else {}
    exchange.reply.put_json(200, {"object": "list", "data": list(rows.values())}, headers)


async def _models_of(exchange: Exchange, name: str) -> list[dict[str, Any]] | None:
    """One upstream's models that requests would reach there; None when it cannot be asked."""
    upstreams = exchange.proxy.upstreams
    try:
        async with asyncio.timeout(10):
            upstream = upstreams.policy.upstreams[name]
            response = await ask(exchange, upstream, b"", plain=True, own_key_only=True)
            body = await read_all(response, MODELS_BYTES)
        found = await read_apart(body, loads, body)
    except (MillgateError, TimeoutError, orjson.JSONDecodeError):
        return None
    rows = found.get("data") if isinstance(found, dict) and response.status == 200 else None
    if not isinstance(rows, list):
        return None
    reached: list[dict[str, Any]] = []
    for row in rows:
        with suppress(NotFound):
            id = row.get("id") if isinstance(row, dict) else None
            if isinstance(id, str) and upstreams.find(id)[0] == name:
                reached.append(row)
    return reached
