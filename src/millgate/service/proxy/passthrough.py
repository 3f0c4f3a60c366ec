"""Passthrough: answers that the guard does not watch, and requests of other APIs, which pass as they are.

The list of models is that of all upstreams, each with those that requests would really reach there. A client's own key
then goes to no upstream: it is meant for one of them, but the request does not say which.

A `UsageTap` reads the usage of an answer on the way. A stream of chat completions reports its usage only if the request
asks for it. If a cap needs it and the client did not ask, we do, and take out what comes of it: an event of its own at
the end, and in all other events a usage that is null. So the client gets the bytes that it would have got otherwise.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from millgate.calls.bugs import surviving
from millgate.errors import MillgateError, NotFound, UpstreamError
from millgate.guard.dialects.dialect import Dialect, Event
from millgate.guard.dialects.usage import UsageSum, hide_usage
from millgate.service.edge.body import read_apart
from millgate.service.edge.reply import Reply
from millgate.service.observe.model_call import ModelCall
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.fuse_steps import fuse_passed_on
from millgate.service.proxy.options import parse_options
from millgate.service.proxy.sse import Splitter, is_stream, parse, payload
from millgate.service.proxy.transport import Response, codings_of, header, is_event_stream
from millgate.service.proxy.upstreams import Upstreams, returned_headers
from millgate.service.wire import Headers
from millgate.text.bounded_json import loads
from millgate.types.check import check_length
from millgate.types.lengths import NAME_CHARS
from millgate.types.policy import UpstreamPolicy

MODELS = "/v1/models"
MODELS_BYTES = 8_000_000  # of a list of models: ten times the longest that aggregators send
BODILESS = (204, 205, 304)
# Bytes of an event or an answer that is read for its usage; what a larger one spent is not known. The answer of the
# longest model, 128 000 tokens, has half of it.
MAX_COUNTED_BYTES = 1 << 20


class UsageTap:
    """Reads the usage of one answer that passes."""

    def __init__(self, dialect: Dialect, *, is_stream: bool, hides: bool) -> None:
        self.usage = UsageSum()
        self.hides = hides
        self._dialect, self._is_stream = dialect, is_stream
        self._splitter = Splitter()
        self._body = b""
        self._is_reading = True

    def feed(self, data: bytes) -> bytes:
        """Take a part of the answer in; what goes on to the client."""
        if not self._is_reading:
            return data
        if not self._is_stream:
            self._body += data
            self._is_reading = len(self._body) <= MAX_COUNTED_BYTES
            return data
        out = b"".join(map(self._pass, self._splitter.feed(data)))
        if self._splitter.pending > MAX_COUNTED_BYTES:
            self._is_reading = False
            out += self._splitter.end()
        return out if self.hides else data  # nothing waits for the end of its event

    def end(self) -> bytes:
        """The answer is over: what is left of it for the client."""
        if self._is_stream:
            rest = self._pass(self._splitter.end())
            return rest if self.hides else b""
        if self._is_reading:
            self._note(self._body)
        return b""

    def _pass(self, event: bytes) -> bytes:
        found = None
        if b'"usage"' in event:
            with suppress(UpstreamError):  # of too many lines
                found = self._note(payload(event))
        return hide_usage(event, found, self._dialect) if found and self.hides else event

    def _note(self, data: bytes) -> Event | None:
        """The object in some JSON, its usage noted; None if it is not an object."""
        try:
            found = parse(data)
        except UpstreamError:
            return None
        with surviving("reading the usage of an answer"):
            self.usage.note(self._dialect.usage(found))
            self.usage.note_diagnosis(found)
        return found


async def pass_on(exchange: Exchange, body: bytes, upstreams: Upstreams) -> None:
    """Send one request of another API to its upstream, and the answer back."""
    several = len(upstreams.policy.upstreams) > 1
    named = parse_options(exchange.headers, upstreams.policy).upstream
    if exchange.path == MODELS and exchange.method == "GET" and several and not named:
        await _list_models(exchange, upstreams)
        return
    model = await read_apart(body, _model_of, exchange.path, exchange.headers, body)
    name, upstream = _find(upstreams, model, named)
    # A request that names neither model nor upstream may be for any of several: none gets the client's key.
    unclear = several and not (model or named)
    exchange.call.model, exchange.call.upstream = model, name
    exchange.call.server = upstream.url
    await fuse_passed_on(exchange, body)
    counted = exchange.hold is not None
    response = await upstreams.send(exchange, upstream, body, own_key_only=unclear, plain=counted)
    exchange.call.answered = response.status == 200
    exchange.reply_headers |= {"x-millgate-upstream": name, "x-millgate-guard": "off"}
    try:
        if exchange.hold is not None and exchange.hold.amount.tokens and exchange.call.answered:
            await _copy_noting_input(exchange, response)
        else:
            await copy(response, exchange.reply, exchange.reply_headers)
    finally:
        await response.close()


async def copy(
    response: Response, reply: Reply, headers: Mapping[str, str], tap: UsageTap | None = None
) -> None:
    """The response to the client, byte for byte, all but the end of the reply; what a tap takes out is left out."""
    returned = returned_headers(response)
    length = header(response.headers, b"content-length")
    if length and response.status not in BODILESS and not (tap and tap.hides):
        returned.append((b"content-length", length))
    reply.head(response.status, returned, headers)
    while data := await response.read():
        if data := tap.feed(data) if tap else data:
            await reply.write(data)
    if tap and (data := tap.end()):
        await reply.write(data)


async def copy_counted(exchange: Exchange, response: Response) -> None:
    """Pass an answer on that is not watched, and read what it spent."""
    call = exchange.call
    call.is_spend_unknown = call.estimated = True
    if codings_of(response.headers):
        await copy(response, exchange.reply, exchange.reply_headers)
        return
    asked = exchange.dialect.streams(exchange.request.fields)
    streams = await is_stream(response, asked=asked)
    tap = UsageTap(exchange.dialect, is_stream=streams, hides=bool(exchange.usage_fields))
    try:
        await copy(response, exchange.reply, exchange.reply_headers, tap)
    finally:
        call.is_spend_unknown = call.estimated = any(tap.usage.gaps())
        _note_usage(call, tap)


async def copy_noting(exchange: Exchange, response: Response) -> None:
    """Pass an answer on as it comes, and note what the upstream says of its own accord that it spent."""
    tap = None
    if not codings_of(response.headers):
        streams = is_event_stream(response.headers)
        tap = UsageTap(exchange.dialect, is_stream=streams, hides=False)
    try:
        await copy(response, exchange.reply, exchange.reply_headers, tap)
    finally:
        if tap:
            _note_usage(exchange.call, tap)


async def _copy_noting_input(exchange: Exchange, response: Response) -> None:
    """Pass an answer on that has no text, as vectors, and read what it says that its request spent."""
    call, tap = exchange.call, UsageTap(exchange.dialect, is_stream=False, hides=False)
    call.is_spend_unknown = True
    try:
        await copy(response, exchange.reply, exchange.reply_headers, tap)
    finally:
        _note_usage(call, tap)
        if call.input_tokens or call.output_tokens:
            call.is_spend_unknown = False


def _note_usage(call: ModelCall, tap: UsageTap) -> None:
    call.input_tokens, call.output_tokens = tap.usage.tokens()
    call.cached_input = tap.usage.cached_input()
    call.first_input, call.cache_diagnosis = tap.usage.first_input(), tap.usage.cache_diagnosis


def _find(upstreams: Upstreams, model: str, named: str) -> tuple[str, UpstreamPolicy]:
    """The upstream for a request that may name no model: then the one for any model, else the first."""
    try:
        return upstreams.find(model, named)
    except NotFound:
        if model:
            raise
        return next(iter(upstreams.policy.upstreams.items()))


def _model_of(path: str, headers: Headers, body: bytes) -> str:
    """The model that a request names in its path or body, if it names one."""
    if path.startswith(f"{MODELS}/"):
        return path.removeprefix(f"{MODELS}/")
    if b"json" not in header(headers, b"content-type"):
        return ""
    try:
        fields = loads(body)
    except orjson.JSONDecodeError:
        return ""
    model = fields.get("model") if isinstance(fields, dict) else None
    if not isinstance(model, str):
        return ""
    check_length("model", model, NAME_CHARS)
    return model


async def _list_models(exchange: Exchange, upstreams: Upstreams) -> None:
    """The models of all upstreams; one that does not answer is left out and named."""
    named = upstreams.policy.upstreams
    lists = await asyncio.gather(*(_models_of(exchange, upstreams, name) for name in named))
    failed = [name for name, rows in zip(named, lists, strict=True) if rows is None]
    if len(failed) == len(named):
        raise UpstreamError("no upstream listed its models", hint=f"asked: {', '.join(named)}")
    rows = {row["id"]: row for found in lists for row in found or ()}
    headers = {"x-millgate-degraded": f"models: {', '.join(failed)}"} if failed else {}
    exchange.reply.put_json(200, {"object": "list", "data": list(rows.values())}, headers)


async def _models_of(
    exchange: Exchange, upstreams: Upstreams, name: str
) -> list[dict[str, Any]] | None:
    """One upstream's models that requests would reach there; None when it cannot be asked."""
    upstream = upstreams.policy.upstreams[name]
    try:
        async with asyncio.timeout(10):
            response = await upstreams.send(exchange, upstream, b"", plain=True, own_key_only=True)
            try:
                body = b""
                while (data := await response.read()) and len(body) < MODELS_BYTES:
                    body += data
            finally:
                await response.close()
        found = await read_apart(body, loads, body)
    except (MillgateError, TimeoutError, orjson.JSONDecodeError):
        return None
    rows = found.get("data") if isinstance(found, dict) and response.status == 200 else None
    if not isinstance(rows, list):
        return None
    return [
        row for row in rows if isinstance(row, dict) and _is_reached(upstreams, name, row.get("id"))
    ]


def _is_reached(upstreams: Upstreams, name: str, model: object) -> bool:
    try:
        return isinstance(model, str) and upstreams.find(model)[0] == name
    except NotFound:
        return False
