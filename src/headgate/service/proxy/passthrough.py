"""Passthrough: requests that are none of the gate's business go to an upstream and come back as they are.

The list of models is that of all upstreams, each with those that requests would really reach there. A client's own key
goes to none of them then: it is meant for one, and which is not known.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Scope

from headgate.errors import HeadgateError, NotFound, UpstreamError
from headgate.policy import UpstreamPolicy
from headgate.service.body import read_apart
from headgate.service.proxy.asgi import Reply
from headgate.service.proxy.request import parse_options
from headgate.service.proxy.transport import Response, header
from headgate.service.proxy.upstreams import Upstreams, returned_headers
from headgate.service.proxy.usage_tap import UsageTap
from headgate.text.bounded_json import loads

MODELS = "/v1/models"
MODELS_BYTES = 8_000_000  # of a list of models: ten times the longest that aggregators send
BODILESS = (204, 205, 304)


async def pass_on(
    upstreams: Upstreams, scope: Scope, body: bytes, reply: Reply, path: str
) -> tuple[str, str]:
    """One request there and back, to this path; the model and the upstream it was for."""
    several = len(upstreams.policy.upstreams) > 1
    options = parse_options(scope["headers"], upstreams.policy)
    if scope["path"] == MODELS and scope["method"] == "GET" and several and not options.upstream:
        await _list_models(upstreams, scope, reply)
        return "", ""
    model = await read_apart(body, _model_of, scope, body)
    name, upstream = _find(upstreams, model, options.upstream)
    # A request that names neither model nor upstream may be for any of several: none gets the client's key.
    unclear = several and not (model or options.upstream)
    response = await upstreams.send(upstream, scope, body, path=path, own_key_only=unclear)
    try:
        await copy(response, reply, {"x-headgate-upstream": name, "x-headgate-guard": "off"})
    finally:
        await response.close()
    return model, name


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


def _find(upstreams: Upstreams, model: str, named: str) -> tuple[str, UpstreamPolicy]:
    """The upstream for a request that may name no model: then the one for any model, else the first."""
    try:
        return upstreams.find(model, named)
    except NotFound:
        if model:
            raise
        return next(iter(upstreams.policy.upstreams.items()))


def _model_of(scope: Scope, body: bytes) -> str:
    """The model that a request names in its path or body, if it names one."""
    path: str = scope["path"]
    if path.startswith(f"{MODELS}/"):
        return path.removeprefix(f"{MODELS}/")
    if b"json" not in header(scope["headers"], b"content-type"):
        return ""
    try:
        fields = loads(body)
    except orjson.JSONDecodeError:
        return ""
    model = fields.get("model") if isinstance(fields, dict) else None
    return model if isinstance(model, str) else ""


async def _list_models(upstreams: Upstreams, scope: Scope, reply: Reply) -> None:
    """The models of all upstreams; one that does not answer is left out and named."""
    named = upstreams.policy.upstreams
    lists = await asyncio.gather(*(_models_of(upstreams, name, scope) for name in named))
    failed = [name for name, rows in zip(named, lists, strict=True) if rows is None]
    if len(failed) == len(named):
        raise UpstreamError("no upstream listed its models", hint=f"asked: {', '.join(named)}")
    rows = {row["id"]: row for found in lists for row in found or ()}
    headers = {"x-headgate-degraded": f"models: {', '.join(failed)}"} if failed else {}
    reply.put_json(200, {"object": "list", "data": list(rows.values())}, headers)


async def _models_of(upstreams: Upstreams, name: str, scope: Scope) -> list[dict[str, Any]] | None:
    """One upstream's models that requests would reach there; None when it cannot be asked."""
    upstream = upstreams.policy.upstreams[name]
    try:
        async with asyncio.timeout(10):
            response = await upstreams.send(upstream, scope, b"", plain=True, own_key_only=True)
            try:
                body = b""
                while (data := await response.read()) and len(body) < MODELS_BYTES:
                    body += data
            finally:
                await response.close()
        found = await read_apart(body, loads, body)
    except (HeadgateError, TimeoutError, orjson.JSONDecodeError):
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
