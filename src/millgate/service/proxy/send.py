"""Send: requests of clients to the model service that has the model.

An upstream refuses a whole request for one field that it does not know, so `ExpiringSet` remembers what upstreams
refused and took. To ask again each time would cost a call. To believe a refusal until the restart would cost more: one
bad answer, or an older version of the upstream, would decide for ever.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from urllib.parse import unquote

from millgate.calls.bugs import LOGGER
from millgate.errors import ConfigError, InputError, NotFound, ScopeError, UpstreamError
from millgate.guard.dialects.dialect import InvalidRequest
from millgate.guard.policy import GuardPolicy
from millgate.keys import OURS
from millgate.service.edge.byte_budget import ByteBudget
from millgate.service.edge.reply import forwardable
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.http_client import HttpClient
from millgate.service.proxy.request import ProxyRequest
from millgate.service.proxy.transport import (
    KEY_HEADERS,
    NOT_REACHED,
    Address,
    Response,
    Timeouts,
    Transport,
    UpstreamRequest,
    codings_of,
    header,
    parse_address,
)
from millgate.service.wire import Headers
from millgate.types.policy import ProxyPolicy, UpstreamPolicy

_version = re.compile(r"/v1(?:beta|alpha)?(?=/)")  # at the beginning of a path ...
_last_version = re.compile(r"/v1(?:beta|alpha)?$")  # ... and at the end of a base address
_some_version = re.compile(r"/v\d")
# How long the end of a response is waited for after its last event, so that its connection can be used again. Chosen,
# not measured: the end should follow at once, and the client has its answer already.
DRAIN_S = 0.25
NEVER_SENT = (b"host", b"content-length", b"cookie", b"expect")
# What a held key may be used for. Files, jobs, stored answers and settings of the account belong to all who share it.
SHARED = {
    "POST": re.compile(
        r"/v1/(?:chat/completions|completions|messages|messages/count_tokens|embeddings|responses"
        r"|responses/input_tokens|responses/compact|rerank|score|moderations|tokenize|detokenize"
        r"|images/(?:generations|edits|variations)|audio/(?:speech|transcriptions|translations))"
        r"|/v1(?:beta)?/models/[^/?]{1,300}:(?:countTokens|embedContent|batchEmbedContents)"
    ),
    "GET": re.compile(r"/v1(?:beta)?/models(?:/[^?]{1,300})?"),
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
NOT_FOUND = (404, 405)
REDIRECTS = (301, 302, 303, 307, 308)
REFUSED = (400, 422)  # what upstreams answer to fields that they do not know
FORGET_S = 600.0  # one refused call in ten minutes is little beside the calls that it saves
MOST_FACTS = 1_000  # facts about upstreams: clients choose the names of models
# bytes of an error that are read; those of the known providers have under two thousand
ERROR_BYTES = 65_536
BEARER = "bearer"
KEY_HEADER_OF_HOST = {
    "api.anthropic.com": "x-api-key",
    "generativelanguage.googleapis.com": "x-goog-api-key",
}
_our_key = re.compile(re.escape(OURS.encode()) + rb"[A-Za-z0-9_-]{20}")


def choose(policy: ProxyPolicy, model: str) -> tuple[str, UpstreamPolicy]:
    """The upstream for a model, its name and its settings: the longest pattern that fits, then the first named."""
    if not policy.upstreams:
        raise ConfigError(
            "no upstream is set up",
            hint="set MILLGATE_PROXY__UPSTREAMS__MAIN__URL to the base address of a model service",
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
        budget: ByteBudget | None = None,
    ) -> None:
        self.policy = policy
        self.facts = ExpiringSet()
        """What upstreams refused or took lately, with which model."""
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
                f"x-millgate-upstream: there is no upstream {named!r}",
                hint=f"upstreams: {', '.join(sorted(self.policy.upstreams)) or 'none'}",
            )
        return named, upstream

    async def send(
        self,
        exchange: Exchange,
        upstream: UpstreamPolicy,
        body: bytes,
        *,
        plain: bool = False,
        own_key_only: bool = False,
    ) -> Response:
        """The upstream's response to the client's request with this body.

        `plain` asks for no compression, and undoes it; `own_key_only` keeps the client's key from this upstream.
        """
        path = check_path(exchange.raw_path)
        if upstream.key:
            self._check_held_key(exchange, upstream, path)
        address, target = _place(parse_address(upstream.url), path)
        if _our_key.search(exchange.query):
            raise InputError("the gate's key stands in the query", hint="send it in a header")
        query = exchange.query.decode("latin-1")
        if upstream.key or own_key_only:  # Gemini's clients may write theirs there
            query = "&".join(part for part in query.split("&") if not part.startswith("key="))
        if query:
            target += f"?{query}"
        auth = upstream.auth or _key_header(exchange, address)
        headers = _headers(exchange.headers, upstream, auth, plain=plain, own_key_only=own_key_only)
        request = UpstreamRequest(
            exchange.method,
            address,
            target,
            headers,
            body,
            Timeouts(upstream.connect_s, upstream.answer_s, upstream.idle_s),
            upstream.proxy,
            owner=exchange.caller.tenant,
            decompress=plain,
        )
        response = await self._find_version(upstream, request)
        if not 200 <= response.status < 600:
            await response.close()
            raise UpstreamError(f"the upstream answered with the status {response.status}")
        return response

    async def _find_version(self, upstream: UpstreamPolicy, request: UpstreamRequest) -> Response:
        """The response; if the base address lacks /v1 and nothing is found there, that with /v1, and we say so."""
        address = request.address
        if _some_version.search(address.path):
            return await self._transport.send(request)
        versioned = replace(request, address=replace(address, path=f"{address.path}/v1"))
        fact = "its address lacks /v1", upstream.url
        if fact in self.facts:
            return await self._transport.send(versioned)
        response = await self._transport.send(request)
        if response.status not in NOT_FOUND:
            return response
        with suppress(UpstreamError):
            second = await self._transport.send(versioned)
            if second.status in NOT_FOUND:
                await second.close()
                return response
            await response.close()
            self.facts.add(*fact)
            LOGGER.warning("the upstream %s answers below /v1: set its url to %s/v1", upstream.url, upstream.url)  # fmt: skip
            return second
        return response

    def _check_held_key(self, exchange: Exchange, upstream: UpstreamPolicy, path: str) -> None:
        """Refuse a call that a key of the service must not be used for, or not by this caller."""
        name = next(name for name, known in self.policy.upstreams.items() if known is upstream)
        if not exchange.caller.may_use(name):
            raise ScopeError(
                f"this key may not use the upstream {name}",
                hint=f"make one with: millgate keys create --scope read --scope proxy:{name}",
            )
        is_model_call = exchange.method == "POST" and exchange.dialect.serves(path)
        if not is_model_call and not is_shared(exchange.method, path):
            raise ScopeError(
                f"{exchange.method} {path[:200]} is not passed on with a key that the service holds",
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


def _place(address: Address, path: str) -> tuple[Address, str]:
    """Where a path stands at an upstream: behind its base address, in the version that the client asks for.

    /v1 stands for whatever version the base address has. Gemini's clients name theirs, which differ in what they can.
    """
    version = _version.match(path)
    name = version[0] if version else ""
    if name not in ("", "/v1"):
        address = replace(address, path=_last_version.sub("", address.path) + name)
    return address, path[len(name) :]


def check_path(path: str) -> str:
    """The path that a client wrote; one that climbs out of the version, however it is written, is refused."""
    if not _version.match(path) or _has_parent_segment(path):
        raise InputError(f"the path {path[:200]!r} cannot be passed on")
    return path


def _has_parent_segment(path: str) -> bool:
    if "%" not in path and ".." not in path:
        return False
    for _ in range(3):  # encoded twice is seen too
        path = unquote(path)
    return any(part.split(";")[0] == ".." for part in path.replace("\\", "/").split("/"))


def _key_header(exchange: Exchange, address: Address) -> str:
    """How the API of a call takes a key. A path of no API, such as /v1/models, goes by the upstream's host."""
    if exchange.dialect.owns(exchange.raw_path):
        return exchange.dialect.key_header
    return KEY_HEADER_OF_HOST.get(address.host, BEARER)


def _headers(
    given: Iterable[tuple[bytes, bytes]],
    upstream: UpstreamPolicy,
    auth: str,
    *,
    plain: bool,
    own_key_only: bool,
) -> Headers:
    more = dict(upstream.headers)
    if upstream.key:
        key = upstream.key.get_secret_value()
        more |= {"authorization": f"Bearer {key}"} if auth == BEARER else {auth: key}
    if plain:
        more["accept-encoding"] = "identity"
    ours = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in more.items()]
    without = [*NEVER_SENT, *(name for name, _ in ours)]
    if upstream.key or own_key_only:
        without += KEY_HEADERS
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
    """The headers of a response that the client may have; of a redirect, where to."""
    names = RETURNED | {b"location"} if response.status in REDIRECTS else RETURNED
    kept = [
        (name, value)
        for name, value in forwardable(response.headers)
        if (name.lower() in names or name.lower().startswith(RETURNED_PREFIXES))
        and not name.lower().startswith(NEVER_RETURNED)
    ]
    return kept + NO_PAGE


def is_shared(method: str, path: str) -> bool:
    """Whether a request is one that a held key may be used for."""
    allowed = SHARED.get("GET" if method == "HEAD" else method)
    return allowed is not None and allowed.fullmatch(path) is not None


class ExpiringSet:
    """Facts about upstreams and models, each kept for ten minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, ...], float] = {}

    def add(self, *what: str) -> None:
        """Remember a fact."""
        if len(self._until) >= MOST_FACTS:
            self._until.clear()
        self._until[what] = self._clock() + FORGET_S

    def __contains__(self, what: tuple[str, ...]) -> bool:
        return self._until.get(what, 0.0) > self._clock()


async def read_refusal(response: Response) -> bytes:
    """The body of a refusal, as far as it can be read; the response is closed."""
    body = b""
    try:
        while len(body) < ERROR_BYTES and (data := await response.read()):
            body += data
    except UpstreamError:
        pass  # the status alone says that it refused
    finally:
        await response.close()
    return body


def names_any(body: bytes, fields: Iterable[str]) -> bool:
    """Whether an error names one of these fields."""
    return any(name.encode() in body for name in fields)


# The step


async def send(exchange: Exchange, upstreams: Upstreams, guard: GuardPolicy) -> Response:
    """Send the request to its upstream; the response, once its head has come."""
    exchange.guard = _guard_for(exchange.request, guard)
    exchange.is_watched = _is_watched(exchange)
    response = await _send_asking_usage(exchange, upstreams)
    prepared = exchange.prepared
    if prepared is not None and prepared.unrepaired is not None and response.status in REFUSED:
        # what we changed may not cost the client its answer
        await response.close()
        exchange.request, prepared.unrepaired = prepared.unrepaired, None
        exchange.call.repaired = ""
        exchange.reply_headers.pop("x-millgate-repaired", None)
        response = await _send_asking_usage(exchange, upstreams)
    exchange.call.answered = response.status == 200
    exchange.call.not_reached = header(response.headers, NOT_REACHED) == b"1"
    codings = codings_of(response.headers) if exchange.is_watched and response.status == 200 else []
    if codings:  # unasked, and unknown: else the body would be plain by now
        exchange.is_watched = False
        names = b", ".join(codings).decode("latin-1")
        exchange.call.unwatched = f"the answer is compressed: {names}"
    return response


def _guard_for(request: ProxyRequest, guard: GuardPolicy) -> GuardPolicy:
    """The guard's policy for this model, with the changes of the headers."""
    try:
        return guard.for_model(request.model).replace(request.options.guard_changes)
    except ConfigError as error:
        raise InvalidRequest(f"x-millgate-guard-*: {error}") from error


def _is_watched(exchange: Exchange) -> bool:
    if not exchange.guard.enabled or not exchange.request.options.guard:
        return False
    exchange.call.unwatched = exchange.dialect.why_unwatched(exchange.request.fields)
    return not exchange.call.unwatched


async def _send_asking_usage(exchange: Exchange, upstreams: Upstreams) -> Response:
    """Send the request, with fields that ask for usage if a cap needs it.

    An upstream that refuses these fields is asked again without them, and the next time at once: what we add may not
    cost the client its answer.
    """
    request, facts, who = exchange.request, upstreams.facts, (exchange.upstream_name, exchange.request.model)  # fmt: skip
    fields = exchange.dialect.ask_usage(request.fields) if exchange.hold else {}
    if not fields or (*who, "refuses usage") in facts:
        return await _send(exchange, upstreams, request.body)
    exchange.usage_fields = fields
    response = await _send(exchange, upstreams, request.with_added(fields))
    if response.status not in REFUSED:
        if response.status == 200:
            facts.add(*who, "takes usage")
        return response
    is_named = names_any(await response.peek(), fields)
    if not is_named and (*who, "takes usage") in facts:
        return response
    await response.close()
    exchange.usage_fields = {}
    response = await _send(exchange, upstreams, request.body)
    if is_named or response.status == 200:
        facts.add(*who, "refuses usage")
    return response


async def _send(exchange: Exchange, upstreams: Upstreams, body: bytes) -> Response:
    plain = exchange.is_watched or exchange.hold is not None
    with exchange.call.waiting():
        return await upstreams.send(exchange, exchange.upstream, body, plain=plain)
