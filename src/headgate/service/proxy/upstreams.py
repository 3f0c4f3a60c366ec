"""Upstreams: requests of clients sent on to the model service that has the model."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase

from starlette.types import Scope

from headgate.errors import ConfigError, InputError, NotFound, UpstreamError, UpstreamTimeout
from headgate.keys import OURS
from headgate.policy import ProxyPolicy, UpstreamPolicy
from headgate.service.proxy.asgi import passed
from headgate.service.proxy.http1 import Http1
from headgate.service.proxy.http2 import Http2
from headgate.service.proxy.transport import Answer, Headers, Outgoing, Patience, Transport

PREFIX = "/v1"
END_S = 0.25  # how long the end of an answer is waited for after its last event
KEYS = (b"authorization", b"x-api-key")
NEVER = (b"host", b"content-length", b"cookie", b"expect")
REPLIED = (b"content-length", b"date", b"server")


class Upstreams:
    """The model services, and the connections to them."""

    def __init__(self, policy: ProxyPolicy, *, tick_s: float = 10.0) -> None:
        self.policy = policy
        self.tick_s = tick_s
        self._http1: Transport = Http1()
        self._http2: Transport = Http2()
        self._ending: set[asyncio.Future[None]] = set()

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
        self, upstream: UpstreamPolicy, scope: Scope, body: bytes, *, plain: bool = False
    ) -> Answer:
        """The upstream's answer to the client's request with this body; `plain` asks for no compression."""
        path = _path(scope)
        query = scope.get("query_string", b"").decode("latin-1")
        url = upstream.url + path.removeprefix(PREFIX) + (f"?{query}" if query else "")
        request = Outgoing(
            scope["method"], url, _headers(scope["headers"], upstream, plain=plain), body
        )
        tick_s = min(self.tick_s, upstream.idle_s)
        patience = Patience(upstream.connect_s, upstream.answer_s, upstream.idle_s, tick_s)
        transport = self._http2 if upstream.http2 else self._http1
        return await transport.send(request, patience)

    def release(self, answer: Answer) -> None:
        """Done with an answer whose last event has come: its end is awaited aside, so that its connection is kept."""
        task = asyncio.ensure_future(_ended(answer))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Close every idle connection."""
        await asyncio.gather(*self._ending)
        await self._http1.close()
        await self._http2.close()


def _path(scope: Scope) -> str:
    """The path as the client wrote it; one that climbs out of the version is refused."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.split(b"?", 1)[0].decode("latin-1")
    if ".." in scope["path"].split("/") or not path.startswith(PREFIX):
        raise InputError(f"the path {path[:200]!r} cannot be passed on")
    return path


def _headers(
    given: Iterable[tuple[bytes, bytes]], upstream: UpstreamPolicy, *, plain: bool
) -> Headers:
    without = [*NEVER, *(KEYS if upstream.key else ())]
    if plain:
        without.append(b"accept-encoding")
    headers = [
        (name, value)
        for name, value in passed(given, without)
        if name not in KEYS or not value.removeprefix(b"Bearer ").startswith(OURS.encode())
    ]
    if plain:
        headers.append((b"accept-encoding", b"identity"))
    more = dict(upstream.headers)
    if upstream.key:
        key = upstream.key.get_secret_value()
        more |= (
            {"authorization": f"Bearer {key}"} if upstream.auth == "bearer" else {"x-api-key": key}
        )
    return headers + [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in more.items()]


async def _ended(answer: Answer) -> None:
    with suppress(TimeoutError, UpstreamError):
        async with asyncio.timeout(END_S):
            while await answer.read():
                pass
    await answer.close()


def replied(answer: Answer) -> Headers:
    """The headers of an answer that the client may have."""
    return passed(answer.headers, REPLIED)


async def parts(answer: Answer, idle_s: float) -> AsyncIterator[bytes]:
    """The body of an answer as it comes; silence for too long is an error."""
    clock = asyncio.get_running_loop().time
    heard = clock()
    while (data := await answer.read()) != b"":
        if data:
            heard = clock()
            yield data
        elif clock() - heard >= idle_s:
            raise UpstreamTimeout(f"the upstream sent nothing for {idle_s:g} s")


async def whole(answer: Answer, limit: int, idle_s: float) -> bytes:
    """The whole body of an answer."""
    body = bytearray()
    async for data in parts(answer, idle_s):
        body += data
        if len(body) > limit:
            raise UpstreamError(
                f"the upstream answered more than max_answer_bytes {limit}",
                hint="raise proxy.max_answer_bytes",
            )
    return bytes(body)


def choose(policy: ProxyPolicy, model: str) -> tuple[str, UpstreamPolicy]:
    """The upstream for a model: its name and its settings."""
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
