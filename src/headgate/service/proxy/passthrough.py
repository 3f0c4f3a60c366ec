"""Passing: requests that are none of the gate's business go to an upstream and come back as they are.

The list of models is that of all upstreams, each with those that requests would really reach there.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Scope

from headgate.errors import HeadgateError, NotFound, UpstreamError
from headgate.policy import UpstreamPolicy
from headgate.service.proxy.asgi import Reply
from headgate.service.proxy.request import knobs_of
from headgate.service.proxy.transport import Answer, header
from headgate.service.proxy.upstreams import Upstreams, parts, replied, whole

MODELS = "/v1/models"


async def pass_on(upstreams: Upstreams, scope: Scope, body: bytes, reply: Reply) -> None:
    """One request there and back."""
    several = len(upstreams.policy.upstreams) > 1
    if scope["path"] == MODELS and scope["method"] == "GET" and several:
        await _models(upstreams, scope, reply)
        return
    knobs = knobs_of(scope["headers"], upstreams.policy)
    name, upstream = _found(upstreams, _model(scope, body), knobs.upstream)
    answer = await upstreams.send(upstream, scope, body)
    try:
        told = {"x-headgate-upstream": name, "x-headgate-guard": "off"}
        await copy(answer, reply, told, upstream.idle_s)
    finally:
        await answer.close()


async def copy(answer: Answer, reply: Reply, told: Mapping[str, str], idle_s: float) -> None:
    """The answer to the client, byte for byte."""
    headers = replied(answer)
    length = header(answer.headers, b"content-length")
    if length:
        headers.append((b"content-length", length))
    reply.head(answer.status, headers, told)
    async for data in parts(answer, idle_s):
        await reply.write(data)
    await reply.end()


def _found(upstreams: Upstreams, model: str, named: str) -> tuple[str, UpstreamPolicy]:
    """The upstream for a request that may name no model: then the one for any model, else the first."""
    try:
        return upstreams.find(model, named)
    except NotFound:
        if model:
            raise
        return next(iter(upstreams.policy.upstreams.items()))


def _model(scope: Scope, body: bytes) -> str:
    """The model that a request is about, where it can be told."""
    path: str = scope["path"]
    if path.startswith(f"{MODELS}/"):
        return path.removeprefix(f"{MODELS}/")
    if b"json" not in header(scope["headers"], b"content-type"):
        return ""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    model = fields.get("model") if isinstance(fields, dict) else None
    return model if isinstance(model, str) else ""


async def _models(upstreams: Upstreams, scope: Scope, reply: Reply) -> None:
    """The models of all upstreams; one that does not answer is left out and named."""
    named = upstreams.policy.upstreams
    lists = await asyncio.gather(*(_list(upstreams, name, scope) for name in named))
    failed = [name for name, rows in zip(named, lists, strict=True) if rows is None]
    if len(failed) == len(named):
        raise UpstreamError("no upstream told its models", hint=f"asked: {', '.join(named)}")
    rows = {row["id"]: row for found in lists for row in found or ()}
    told = {"x-headgate-degraded": f"models: {', '.join(failed)}"} if failed else {}
    await reply.json(200, {"object": "list", "data": list(rows.values())}, told)


async def _list(upstreams: Upstreams, name: str, scope: Scope) -> list[dict[str, Any]] | None:
    """One upstream's models that requests would reach there; None when it cannot be asked."""
    upstream = upstreams.policy.upstreams[name]
    try:
        answer = await upstreams.send(upstream, scope, b"", plain=True)
        try:
            body = await whole(answer, 8_000_000, 10.0)
        finally:
            await answer.close()
        found = orjson.loads(body)
    except (HeadgateError, orjson.JSONDecodeError):
        return None
    rows = found.get("data") if isinstance(found, dict) and answer.status == 200 else None
    if not isinstance(rows, list):
        return None
    return [
        row for row in rows if isinstance(row, dict) and _reached(upstreams, name, row.get("id"))
    ]


def _reached(upstreams: Upstreams, name: str, model: object) -> bool:
    try:
        return isinstance(model, str) and upstreams.find(model)[0] == name
    except NotFound:
        return False
