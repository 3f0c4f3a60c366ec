"""Passthrough: requests of other APIs, which pass as they are.

The list of models is that of all upstreams, each with those that requests would really reach there. A client's own key
then goes to no upstream: it is meant for one of them, but the request does not say which.
"""

import asyncio
from typing import Any

import orjson

from millgate.errors import MillgateError, NotFound, UpstreamError
from millgate.service.edge.body import read_apart
from millgate.service.proxy.answer import copy
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.fuse_steps import fuse_passed_on
from millgate.service.proxy.request import fields_of, parse_options
from millgate.service.proxy.send import Upstreams
from millgate.service.wire import Headers
from millgate.text.bounded_json import loads
from millgate.types.check import check_length
from millgate.types.lengths import NAME_CHARS
from millgate.types.policy import UpstreamPolicy

MODELS = "/v1/models"
MODELS_BYTES = 8_000_000  # of a list of models: ten times the longest that aggregators send


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
        # what is free, as counting tokens, spends none of what it says
        held = exchange.hold.amount.tokens if exchange.hold is not None else 0
        await copy(exchange, response, reads=held > 0)
    finally:
        await response.close()


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
    model = fields_of(headers, body).get("model")
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
