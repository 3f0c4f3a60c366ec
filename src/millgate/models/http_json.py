"""HTTP JSON: one JSON call over HTTP; every way it can fail becomes an UpstreamError.

The whole call has a deadline and the answer a size limit, so that a slow or endless server costs bounded
time and memory. Needs the extra `http`.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import orjson

from millgate.calls.parts import start_thread
from millgate.errors import MissingExtra, UpstreamError
from millgate.text.bounded_json import loads
from millgate.text.table import clip, printable

MAX_BYTES = 8_000_000  # far above any honest answer: 10 000 search hits are about 5 MB
_SAID = 300  # characters of a service's own words in an error: a sentence or two


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to call, with which key, and how long to wait."""

    url: str
    key: str = field(default="", repr=False)
    timeout_s: float = 10.0
    max_bytes: int = MAX_BYTES
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    names_path: bool = False
    """Whether an error names the whole path and repeats what the service said: for a person who asked it directly."""


def post_json(endpoint: Endpoint, body: Mapping[str, Any]) -> Any:  # noqa: ANN401  # as `call_json`
    """`call_json` for callers without an event loop, or inside one that is not theirs."""
    return start_thread("http", asyncio.run, call_json(endpoint, body=body)).result()


async def call_json(
    endpoint: Endpoint,
    *,
    params: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401  # what JSON holds is the caller's to check
    """GET with `params`, or POST `body`; the parsed JSON answer."""
    try:
        httpx2 = import_module("httpx2")
    except ImportError as error:
        raise MissingExtra("httpx2", extra="http") from error
    method, content, data = "GET", None, bytearray()
    headers = {"accept": "application/json", **endpoint.headers}
    if endpoint.key:
        headers["authorization"] = f"Bearer {endpoint.key}"
    if body is not None:
        method, content = "POST", orjson.dumps(body)
        headers["content-type"] = "application/json"
    try:
        # A redirect is not followed: it would let one service choose which other one gets the question and the key.
        async with (
            asyncio.timeout(endpoint.timeout_s),
            httpx2.AsyncClient(follow_redirects=False, timeout=None) as client,
            client.stream(
                method, endpoint.url, params=params, content=content, headers=headers
            ) as response,
        ):
            async for part in response.aiter_bytes():
                data += part
                if len(data) > endpoint.max_bytes:
                    raise UpstreamError(
                        f"{endpoint.url} answered more than {endpoint.max_bytes} bytes",
                        hint="ask for fewer results",
                    )
    except TimeoutError as error:
        raise UpstreamError(
            f"{endpoint.url} gave no answer within {endpoint.timeout_s:g} s",
            hint="is it up? raise the timeout, or turn it off",
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UpstreamError(f"{endpoint.url} cannot be reached: {why}") from error
    kind = response.headers.get("content-type", "")
    return _read(endpoint, response.status_code, kind, bytes(data))


def _read(endpoint: Endpoint, status: int, kind: str, data: bytes) -> Any:  # noqa: ANN401  # as above
    # without the path, which may hold secrets, unless it is to be named
    address = urlsplit(endpoint.url)
    path = address.path if endpoint.names_path else ""
    server = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{path}"
    if status != 200:
        said = _complaint(data) if endpoint.names_path else ""
        raise UpstreamError(f"{server} answered {status}{said}")
    try:
        return loads(data)
    except orjson.JSONDecodeError as error:
        # its words are the other side's and are not repeated
        kind = kind.split(";", maxsplit=1)[0].strip()
        shown = kind if re.fullmatch(r"[\w.+/-]{1,60}", kind) else "something"
        raise UpstreamError(f"{server} answered {shown} instead of JSON") from error


def _complaint(data: bytes) -> str:
    """What the service says is wrong, as the end of a sentence."""
    try:
        said: object = loads(data)
    except orjson.JSONDecodeError:
        said = data[: 4 * _SAID].decode("utf-8", "replace")
    # services say it as "error", as its "message", or as "message" alone
    for name in ("error", "message"):
        said = said.get(name, said) if isinstance(said, dict) else said
    text = said if isinstance(said, str) else orjson.dumps(said).decode() if said else ""
    return f": {printable(clip(text, _SAID))}" if text.strip() else ""


def completion_text(answer: object) -> str:
    """The text of the first choice in a chat completion; empty if it has none."""
    match answer:
        case {"choices": [{"message": {"content": str(text)}}, *_]}:
            return text.strip()
    return ""
