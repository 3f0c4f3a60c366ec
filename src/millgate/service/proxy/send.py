"""Send: a client's request to the model service that has the model.

What we change, or add to ask for usage, may not cost the client its answer: an upstream that refuses it is asked again
without. Keys go only where they belong: a key that the service holds serves calls of models and nothing else, the
client's own key reaches no upstream that has a key of its own, and the gate's key reaches none.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from urllib.parse import unquote

from millgate.calls.bugs import LOGGER
from millgate.errors import ConfigError, InputError, ScopeError, UpstreamError
from millgate.guard.dialects.dialect import InvalidRequest
from millgate.keys import OURS
from millgate.service.edge.reply import forwardable
from millgate.service.proxy.exchange import Exchange
from millgate.service.proxy.http_client import (
    KEY_HEADERS,
    NOT_REACHED,
    HttpResponse,
    Timeouts,
    UpstreamRequest,
    codings_of,
    header,
    parse_address,
)
from millgate.service.proxy.upstreams import Upstreams
from millgate.service.wire import Headers
from millgate.types.policy import UpstreamPolicy

_version = re.compile(r"/v1(?:beta|alpha)?(?=/)")  # at the beginning of a path ...
_last_version = re.compile(r"/v1(?:beta|alpha)?$")  # ... and at the end of a base address
_some_version = re.compile(r"/v\d")
_our_key = re.compile(re.escape(OURS.encode()) + rb"[A-Za-z0-9_-]{20}")
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
    b"x-accel-", b"x-sendfile", b"x-lighttpd-", b"x-content-type-options", b"x-dns-", b"x-frame-",
)  # fmt: skip
# A page that an upstream sends must not run as one of ours.
NO_PAGE: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
]
NOT_FOUND = (404, 405)
REDIRECTS = (301, 302, 303, 307, 308)
REFUSED = (400, 422)  # what upstreams answer to fields that they do not know
BEARER = "bearer"
KEY_HEADER_OF_HOST = {
    "api.anthropic.com": "x-api-key",
    "generativelanguage.googleapis.com": "x-goog-api-key",
}


async def send(exchange: Exchange) -> HttpResponse:
    """Send the request to its upstream; the response, once its head has come."""
    request, call = exchange.request, exchange.call
    try:
        guard = exchange.proxy.guard.for_model(request.model)
        exchange.guard = guard.replace(request.options.guard_changes)
    except ConfigError as error:
        raise InvalidRequest(f"x-millgate-guard-*: {error}") from error
    if exchange.guard.enabled and request.options.guard:
        call.unwatched = exchange.dialect.why_unwatched(request.fields)
        exchange.is_watched = not call.unwatched
    response = await _send_asking_usage(exchange)
    prepared = exchange.prepared
    if prepared is not None and prepared.unrepaired is not None and response.status in REFUSED:
        await response.close()
        exchange.request, prepared.unrepaired = prepared.unrepaired, None
        call.repaired = ""
        exchange.reply_headers.pop("x-millgate-repaired", None)
        response = await _send_asking_usage(exchange)
    call.answered = response.status == 200
    call.not_reached = header(response.headers, NOT_REACHED) == b"1"
    if exchange.is_watched and call.answered and (codings := codings_of(response.headers)):
        # unasked, and unknown: else the body would be plain by now
        exchange.is_watched = False
        call.unwatched = f"the answer is compressed: {b', '.join(codings).decode('latin-1')}"
    return response


async def _send_asking_usage(exchange: Exchange) -> HttpResponse:
    """Send the request, with fields that ask for usage if a cap needs it.

    An upstream that refuses these fields is asked again without them, and the next time at once.
    """
    request, facts = exchange.request, exchange.proxy.upstreams.facts
    who = exchange.call.upstream, request.model
    fields = exchange.dialect.ask_usage(request.fields) if exchange.hold else {}
    if not fields or (*who, "refuses usage") in facts:
        return await _send(exchange, request.body)
    exchange.usage_fields = fields
    response = await _send(exchange, request.with_added(fields))
    if response.status not in REFUSED:
        if response.status == 200:
            facts.add(*who, "takes usage")
        return response
    is_named = names_any(await response.peek(), fields)
    if not is_named and (*who, "takes usage") in facts:
        return response
    await response.close()
    exchange.usage_fields = {}
    response = await _send(exchange, request.body)
    if is_named or response.status == 200:
        facts.add(*who, "refuses usage")
    return response


async def _send(exchange: Exchange, body: bytes) -> HttpResponse:
    plain = exchange.is_watched or exchange.hold is not None
    with exchange.call.waiting():
        return await ask(exchange, exchange.upstream, body, plain=plain)


def names_any(body: bytes, fields: Iterable[str]) -> bool:
    """Whether an error names one of these fields."""
    return any(name.encode() in body for name in fields)


async def ask(
    exchange: Exchange,
    upstream: UpstreamPolicy,
    body: bytes,
    *,
    plain: bool = False,
    own_key_only: bool = False,
) -> HttpResponse:
    """An upstream's response to the client's request with this body.

    `plain` asks for no compression, and undoes it; `own_key_only` keeps the client's key from this upstream.
    """
    path, query = exchange.raw_path, exchange.query.decode("latin-1")
    version = _version.match(path)
    if version is None or _has_parent_segment(path):
        raise InputError(f"the path {path[:200]!r} cannot be passed on")
    if upstream.key:
        _check_held_key(exchange, upstream, path)
    if _our_key.search(exchange.query):
        raise InputError("the gate's key stands in the query", hint="send it in a header")
    own_key_only = own_key_only or bool(upstream.key)
    if own_key_only:  # Gemini's clients may write theirs there
        query = "&".join(part for part in query.split("&") if not part.startswith("key="))
    address = parse_address(upstream.url)
    # A path of no API, such as /v1/models, goes by the upstream's host.
    is_of_api = exchange.dialect.owns(path)
    by_host = KEY_HEADER_OF_HOST.get(address.host, BEARER)
    auth = upstream.auth or (exchange.dialect.key_header if is_of_api else by_host)
    # /v1 is whatever version the base address has. Gemini's clients name theirs, which differ in what they can.
    if version[0] != "/v1":
        address = replace(address, path=_last_version.sub("", address.path) + version[0])
    request = UpstreamRequest(
        exchange.method,
        address,
        path[version.end() :] + (f"?{query}" if query else ""),
        _headers(exchange.headers, upstream, auth, plain=plain, own_key_only=own_key_only),
        body,
        Timeouts(upstream.connect_s, upstream.answer_s, upstream.idle_s),
        upstream.proxy,
        owner=exchange.caller.tenant,
        decompress=plain,
    )
    response = await _find_version(exchange.proxy.upstreams, upstream, request)
    if not 200 <= response.status < 600:
        await response.close()
        raise UpstreamError(f"the upstream answered with the status {response.status}")
    return response


def _has_parent_segment(path: str) -> bool:
    """Whether a path climbs out of its version, however that is written."""
    for _ in range(3):  # encoded twice is seen too
        path = unquote(path)
    return any(part.split(";")[0] == ".." for part in path.replace("\\", "/").split("/"))


def _check_held_key(exchange: Exchange, upstream: UpstreamPolicy, path: str) -> None:
    """Refuse a call that a key of the service must not be used for, or not by this caller."""
    known = exchange.proxy.policy.upstreams
    name = next(name for name, each in known.items() if each is upstream)
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


def is_shared(method: str, path: str) -> bool:
    """Whether a request is one that a held key may be used for."""
    allowed = SHARED.get("GET" if method == "HEAD" else method)
    return allowed is not None and allowed.fullmatch(path) is not None


def _headers(
    given: Headers, upstream: UpstreamPolicy, auth: str, *, plain: bool, own_key_only: bool
) -> Headers:
    more = dict(upstream.headers)
    if upstream.key:
        key = upstream.key.get_secret_value()
        more |= {"authorization": f"Bearer {key}"} if auth == BEARER else {auth: key}
    if plain:
        more["accept-encoding"] = "identity"
    ours = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in more.items()]
    without = {*NEVER_SENT, *dict(ours), *(KEY_HEADERS if own_key_only else ())}
    theirs = forwardable(given, without)
    return [(name, value) for name, value in theirs if not _our_key.search(value)] + ours


async def _find_version(
    upstreams: Upstreams, upstream: UpstreamPolicy, request: UpstreamRequest
) -> HttpResponse:
    """The response; if the base address lacks /v1 and nothing is found there, that with /v1, and we say so."""
    address, transport = request.address, upstreams.transport
    if _some_version.search(address.path):
        return await transport.send(request)
    versioned = replace(request, address=replace(address, path=f"{address.path}/v1"))
    fact = "its address lacks /v1", upstream.url
    if fact in upstreams.facts:
        return await transport.send(versioned)
    response = await transport.send(request)
    if response.status not in NOT_FOUND:
        return response
    with suppress(UpstreamError):
        second = await transport.send(versioned)
        if second.status in NOT_FOUND:
            await second.close()
            return response
        await response.close()
        upstreams.facts.add(*fact)
        LOGGER.warning(
            "the upstream %s answers below /v1: set its url to %s/v1", upstream.url, upstream.url
        )
        return second
    return response


def returned_headers(response: HttpResponse) -> Headers:
    """The headers of a response that the client may have; of a redirect, where to."""
    names = RETURNED | {b"location"} if response.status in REDIRECTS else RETURNED
    kept = [
        (name, value)
        for name, value in forwardable(response.headers)
        if (name.lower() in names or name.lower().startswith(RETURNED_PREFIXES))
        and not name.lower().startswith(NEVER_RETURNED)
    ]
    return kept + NO_PAGE
