"""HTTP JSON: one JSON call over HTTP; every way it can fail becomes an UpstreamError.

The whole call has a deadline and the answer a size limit, so that a slow or endless server costs bounded
time and memory. Needs the extra `http`.
"""

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import orjson

from millgate.errors import MissingExtra, UpstreamError
from millgate.text.bounded_json import loads
from millgate.text.table import clip, printable

MAX_BYTES = 8_000_000  # far above any honest answer: 10 000 search hits are about 5 MB
_SAID = 300  # characters of a service's own words in an error: a sentence or two


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to call, as whom, and how long to wait."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 10.0
    max_bytes: int = MAX_BYTES
    names_path: bool = False
    """Whether an error names the whole path and repeats what the service said: for a person who asked it directly."""


async def call_json(
    endpoint: Endpoint,
    *,
    params: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401  # what JSON holds is the caller's to check
    """GET with `params`, or POST `body`; the parsed JSON answer."""
    httpx2 = _library()
    try:
        async with asyncio.timeout(endpoint.timeout_s):
            status, kind, data = await _fetch(httpx2, endpoint, params, body)
    except TimeoutError as error:
        raise _late(endpoint) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise _unreachable(endpoint, error) from error
    return _read(endpoint, status, kind, data)


def post_json(endpoint: Endpoint, body: Mapping[str, Any]) -> Any:  # noqa: ANN401  # as above
    """POST `body`; the parsed JSON answer. For callers without an event loop, or inside one that is not theirs."""
    httpx2, until, answer = _library(), time.monotonic() + endpoint.timeout_s, bytearray()
    content, headers = orjson.dumps(body), _headers(endpoint, posts=True)
    try:
        with (
            httpx2.Client(follow_redirects=False, timeout=endpoint.timeout_s) as client,
            client.stream("POST", endpoint.url, content=content, headers=headers) as response,
        ):
            for part in response.iter_bytes():
                _add(answer, part, endpoint)
                if time.monotonic() > until:
                    raise _late(endpoint)
            status, kind = response.status_code, response.headers.get("content-type", "")
    except httpx2.TimeoutException as error:
        raise _late(endpoint) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise _unreachable(endpoint, error) from error
    return _read(endpoint, status, kind, bytes(answer))


def _read(endpoint: Endpoint, status: int, kind: str, data: bytes) -> Any:  # noqa: ANN401  # as above
    if status != 200:
        raise UpstreamError(f"{_shown(endpoint)} answered {status}{_complaint(endpoint, data)}")
    try:
        return loads(data)
    except orjson.JSONDecodeError as error:
        raise UpstreamError(f"{_shown(endpoint)} answered {_kind(kind)} instead of JSON") from error


def _library() -> Any:  # noqa: ANN401  # a module
    try:
        return import_module("httpx2")
    except ImportError as error:
        raise MissingExtra("httpx2", extra="http") from error


async def _fetch(
    library: Any,  # noqa: ANN401  # the module, imported where it is used
    endpoint: Endpoint,
    params: Mapping[str, str] | None,
    body: Mapping[str, Any] | None,
) -> tuple[int, str, bytes]:
    """Status, content type and body of one answer; a body above the size limit is an error."""
    method = "GET" if body is None else "POST"
    content = None if body is None else orjson.dumps(body)
    headers = _headers(endpoint, posts=body is not None)
    # A redirect is not followed: it would let one service choose which other one gets the question and the key.
    async with (
        library.AsyncClient(follow_redirects=False, timeout=None) as client,
        client.stream(
            method, endpoint.url, params=params, content=content, headers=headers
        ) as response,
    ):
        data = bytearray()
        async for part in response.aiter_bytes():
            _add(data, part, endpoint)
        return response.status_code, response.headers.get("content-type", ""), bytes(data)


def _headers(endpoint: Endpoint, *, posts: bool) -> dict[str, str]:
    sent = {"content-type": "application/json"} if posts else {}
    return {"accept": "application/json", **endpoint.headers, **sent}


def _add(data: bytearray, part: bytes, endpoint: Endpoint) -> None:
    data += part
    if len(data) > endpoint.max_bytes:
        raise UpstreamError(
            f"{endpoint.url} answered more than {endpoint.max_bytes} bytes",
            hint="ask for fewer results",
        )


def _late(endpoint: Endpoint) -> UpstreamError:
    return UpstreamError(
        f"{endpoint.url} gave no answer within {endpoint.timeout_s:g} s",
        hint="is it up? raise the timeout, or turn it off",
    )


def _unreachable(endpoint: Endpoint, error: Exception) -> UpstreamError:
    return UpstreamError(f"{endpoint.url} cannot be reached: {type(error).__name__}: {error}")


def _shown(endpoint: Endpoint) -> str:
    """The server that a call went to; without the path, which may hold secrets, unless it is to be named."""
    parts = urlsplit(endpoint.url)
    path = parts.path if endpoint.names_path else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


def _complaint(endpoint: Endpoint, data: bytes) -> str:
    """What the service says is wrong, as the end of a sentence; "" if its words are not repeated."""
    if not endpoint.names_path:
        return ""
    try:
        said: object = loads(data)
    except orjson.JSONDecodeError:
        said = data[: 4 * _SAID].decode("utf-8", "replace")
    # services say it as "error", as its "message", or as "message" alone
    for name in ("error", "message"):
        said = said.get(name, said) if isinstance(said, dict) else said
    text = said if isinstance(said, str) else orjson.dumps(said).decode() if said else ""
    return f": {printable(clip(text, _SAID))}" if text.strip() else ""


def _kind(content_type: str) -> str:
    """The type of an answer, for an error message: its words are the other side's and are not repeated."""
    kind = content_type.split(";", maxsplit=1)[0].strip()
    return kind if re.fullmatch(r"[\w.+/-]{1,60}", kind) else "something"
