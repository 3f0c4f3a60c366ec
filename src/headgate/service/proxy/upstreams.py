"""Upstreams: requests of clients sent on to the model service that has the model."""

import asyncio
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from starlette.types import Scope

from headgate.errors import ConfigError, InputError, NotFound, ScopeError, UpstreamError
from headgate.keys import OURS
from headgate.policy import ProxyPolicy, UpstreamPolicy
from headgate.service.byte_budget import ByteBudget
from headgate.service.proxy.asgi import forwardable
from headgate.service.proxy.http_client import HttpClient
from headgate.service.proxy.transport import (
    Address,
    Headers,
    Request,
    Response,
    Timeouts,
    Transport,
)

PREFIX = "/v1"
DRAIN_S = 0.25  # how long the end of a response is waited for after its last event
KEYS = (b"authorization", b"x-api-key", b"api-key")
NEVER_SENT = (b"host", b"content-length", b"cookie", b"expect")
# What a held key may be used for. Files, jobs, stored answers and settings of the account belong to all who share it.
SHARED = {
    "POST": re.compile(
        r"/v1/(?:chat/completions|completions|messages|messages/count_tokens|embeddings|responses"
        r"|responses/input_tokens|responses/compact|rerank|moderations)"
    ),
    "GET": re.compile(r"/v1/models(?:/[^?]{1,300})?"),
}
# Headers of a response that the client may have. Others speak for the upstream's origin, and this one is ours.
RETURNED = frozenset(
    {
        b"content-type", b"content-encoding", b"content-language", b"cache-control", b"vary", b"retry-after",
        b"retry-after-ms", b"request-id", b"apim-request-id", b"cf-ray", b"www-authenticate",
    }
)  # fmt: skip
RETURNED_PREFIXES = (b"openai-", b"anthropic-", b"ratelimit", b"x-")
# What a web server in front of this one, or a browser, would obey.
NEVER_RETURNED = (
    b"x-accel-",
    b"x-sendfile",
    b"x-lighttpd-",
    b"x-content-type-options",
    b"x-dns-",
    b"x-frame-",
)
# A page that an upstream sends must not run as one of ours.
NO_PAGE: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
]
MayUse = Callable[[Scope, str], bool]
"""Whether whoever sent a request may use an upstream with the key that is held for it."""
_our_key = re.compile(re.escape(OURS.encode()) + rb"[A-Za-z0-9_-]{20}")


def choose(policy: ProxyPolicy, model: str) -> tuple[str, UpstreamPolicy]:
    """The upstream for a model, its name and its settings: the longest pattern that fits, then the first named."""
    if not policy.upstreams:
        raise ConfigError(
            "no upstream is set up",
            hint="set HEADGATE_PROXY__UPSTREAMS__MAIN__URL to the base address of a model service",
        )
    fits = [
        (len(pattern.strip("*")), name)
        for name, upstream in policy.upstreams.items()
        for pattern in upstream.models
        if fnmatchcase(model, pattern)
    ]
    if not fits:
        raise NotFound(
            f"no upstream has a model {model!r}",
            hint=f"upstreams: {', '.join(sorted(policy.upstreams))}",
        )
    best = max(size for size, _ in fits)
    name = next(name for size, name in fits if size == best)
    return name, policy.upstreams[name]


class Upstreams:
    """The model services, and the connections to them."""

    def __init__(
        self,
        policy: ProxyPolicy,
        transport: Transport | None = None,
        *,
        may_use: MayUse = lambda _, __: True,
        budget: ByteBudget | None = None,
    ) -> None:
        self.policy = policy
        self._may_use = may_use
        self._transport: Transport = transport or HttpClient()
        self._draining: set[asyncio.Future[None]] = set()
        self.budget = budget or ByteBudget()

    def find(self, model: str, named: str = "") -> tuple[str, UpstreamPolicy]:
        """The upstream that a header names, or the one that has the model."""
        if not named:
            return choose(self.policy, model)
        upstream = self.policy.upstreams.get(named)
        if upstream is None:
            raise InputError(
                f"x-headgate-upstream: there is no upstream {named!r}",
                hint=f"upstreams: {', '.join(sorted(self.policy.upstreams)) or 'none'}",
            )
        return named, upstream

    async def send(
        self,
        upstream: UpstreamPolicy,
        scope: Scope,
        body: bytes,
        *,
        plain: bool = False,
        own_key_only: bool = False,
        path: str | None = None,
    ) -> Response:
        """The upstream's response to the client's request with this body.

        `plain` asks for no compression, and undoes it; `own_key_only` keeps the client's key from this upstream.
        """
        path = path or request_path(scope)
        if upstream.key:
            self._check_held_key(upstream, scope, path)
        target = path.removeprefix(PREFIX)
        query: bytes = scope.get("query_string", b"")
        if _our_key.search(query):
            raise InputError("the gate's key stands in the query", hint="send it in a header")
        if query:
            target += f"?{query.decode('latin-1')}"
        headers = _headers(scope["headers"], upstream, plain=plain, own_key_only=own_key_only)
        request = Request(
            scope["method"],
            parse_address(upstream.url),
            target,
            headers,
            body,
            Timeouts(upstream.connect_s, upstream.answer_s, upstream.idle_s),
            upstream.proxy,
            decompress=plain,
        )
        response = await self._transport.send(request)
        if not 200 <= response.status < 600:
            await response.close()
            raise UpstreamError(f"the upstream answered with the status {response.status}")
        return response

    def _check_held_key(self, upstream: UpstreamPolicy, scope: Scope, path: str) -> None:
        """Refuse a call that a key of the service must not be used for, or not by this caller."""
        name = next(name for name, known in self.policy.upstreams.items() if known is upstream)
        if not self._may_use(scope, name):
            raise ScopeError(
                f"this key may not use the upstream {name}",
                hint=f"make one with: headgate keys create --scope read --scope proxy:{name}",
            )
        if not is_shared(scope["method"], path):
            raise ScopeError(
                f"{scope['method']} {path[:200]} is not passed on with a key that the service holds",
                hint="ask the model service itself, with a key of your own",
            )

    async def release(self, response: Response) -> None:
        """Done with a response whose last event has come: its end is awaited aside, to keep its connection."""
        if response.is_complete:
            await response.close()
            return
        task = asyncio.ensure_future(_drain(response))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*self._draining)
        await self._transport.close()


@lru_cache(maxsize=256)
def parse_address(url: str) -> Address:
    """The parts of a base address."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Address(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))


def request_path(scope: Scope) -> str:
    """The path as the client wrote it; one that climbs out of the version, however it is written, is refused."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.split(b"?", 1)[0].decode("latin-1")
    if not path.startswith(f"{PREFIX}/") or _has_parent_segment(path):
        raise InputError(f"the path {path[:200]!r} cannot be passed on")
    return path


def _has_parent_segment(path: str) -> bool:
    if "%" not in path and ".." not in path:
        return False
    for _ in range(3):  # encoded twice is seen too
        path = unquote(path)
    return any(part.split(";")[0] == ".." for part in path.replace("\\", "/").split("/"))


def _headers(
    given: Iterable[tuple[bytes, bytes]],
    upstream: UpstreamPolicy,
    *,
    plain: bool,
    own_key_only: bool,
) -> Headers:
    more = dict(upstream.headers)
    if upstream.key:
        key = upstream.key.get_secret_value()
        more |= (
            {"authorization": f"Bearer {key}"} if upstream.auth == "bearer" else {"x-api-key": key}
        )
    if plain:
        more["accept-encoding"] = "identity"
    ours = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in more.items()]
    without = [*NEVER_SENT, *(name for name, _ in ours)]
    if upstream.key or own_key_only:
        without += KEYS
    theirs = [
        (name, value) for name, value in forwardable(given, without) if not _our_key.search(value)
    ]
    return theirs + ours


async def _drain(response: Response) -> None:
    with suppress(TimeoutError, UpstreamError):
        async with asyncio.timeout(DRAIN_S):
            while await response.read():
                pass
    await response.close()


def returned_headers(response: Response) -> Headers:
    """The headers of a response that the client may have."""
    kept = [
        (name, value)
        for name, value in forwardable(response.headers)
        if (name.lower() in RETURNED or name.lower().startswith(RETURNED_PREFIXES))
        and not name.lower().startswith(NEVER_RETURNED)
    ]
    return kept + NO_PAGE


def is_shared(method: str, path: str) -> bool:
    """Whether a request is one that a held key may be used for."""
    allowed = SHARED.get(method)
    return allowed is not None and allowed.fullmatch(path) is not None
