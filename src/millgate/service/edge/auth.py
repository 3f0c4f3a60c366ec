"""Auth: whose a request is, and what it may do.

A key in `x-millgate-key`, `Authorization: Bearer`, `x-api-key` or `x-goog-api-key` names the tenant and the scopes; on
pages of the dashboard the key does with which a session was begun. A caller without a key is let in only from this
machine, for the tenant of the settings. From this machine means: the address is loopback, the Host header is a
loopback name (else a web page could reach us by rebinding its own name), no page of another origin sent the request,
and no proxy stands between. Nobody waits for another's wrong keys: behind one address may be many callers, a key is
256 random bits, and to look one up costs no more than to refuse a request without one.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope as AsgiScope

from millgate.errors import AccessError, StoreError
from millgate.keys import OURS, SCOPES, Keys, digest, is_well_formed, missing_scope
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.cookies import sessions_in_cookies
from millgate.service.edge.origin import Headers, is_same_origin
from millgate.service.edge.paths import is_proxied
from millgate.service.edge.sign_in import SignedIn, is_token
from millgate.service.observe.request_state import Caller, state_of
from millgate.text.cache import Cache
from millgate.types import Key, Scope

# Seconds for which a key that was read is trusted, and so how soon a revoked one stops working.
CACHE_S = 2.0
# While the store is away, a key that was read so many seconds ago still lets model calls through, and the store is
# asked again after that pause: an outage of ours must not be one of the model's.
OUTAGE_S, PAUSE_S = 600.0, 30.0
_KEY_BYTES = 650  # of a key that was read, with its digest, tenant, scopes and label
_CACHE_BYTES = 9_000_000  # 10 000 keys

_SEND_KEY = "send it as 'Authorization: Bearer mg_…'"

# What reverse proxies and load balancers add. nginx adds nothing by default, but speaks HTTP/1.0.
_PROXY_HEADERS = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip"}
    | {b"fastly-client-ip", b"x-envoy-external-address", b"x-original-host", b"x-proxyuser-ip"}
)


@dataclass(eq=False)
class Auth:
    """Identifies callers by their key, or by being on this machine."""

    keys: Keys
    tenant: str
    keyless: str = "auto"
    signed_in: SignedIn = field(default_factory=lambda: SignedIn(ConversationState()))
    """The sessions of the dashboard."""
    clock: Callable[[], float] = time.monotonic
    # what was read, when, and until when it is trusted; without it every request would read the store
    _cache: Cache[str, tuple[Any, float, float]] = field(
        default_factory=lambda: Cache(_CACHE_BYTES, lambda *_: _KEY_BYTES)
    )

    async def caller(self, scope: AsgiScope) -> Caller:
        """Who sent a request. AccessError if the key is missing or not valid."""
        headers: Headers = dict(scope["headers"])
        token = _token(headers)
        sessions = [] if token else sessions_in_cookies(scope)
        # On a proxied path another service's key is meant for that service.
        if not (token or sessions) or (is_proxied(scope.get("path", "")) and not token.startswith(OURS)):  # fmt: skip
            return await self._local_caller(scope, headers)
        if token:
            return _as_caller(await self.check(token))
        for session in filter(is_token, sessions):
            key = await self._valid_key(await self.signed_in.find(session))
            if key is not None:
                return _as_caller(key)
        try:  # another program on this host may have set that cookie; it must not close pages that need no key
            return await self._local_caller(scope, headers)
        except AccessError:
            raise AccessError(
                "this session is over, or its key is not valid", hint="sign in with a key"
            ) from None

    async def check(self, token: str) -> Key:
        """The key of a token. AccessError if it is not valid."""
        key = await self._valid_key(digest(token)) if is_well_formed(token) else None
        if key is None:
            raise AccessError("the key is not valid", hint="make one with: millgate keys create")
        return key

    async def _local_caller(self, scope: AsgiScope, headers: Headers) -> Caller:
        if not (_comes_from_loopback(scope) and _is_direct(scope, headers)):
            raise AccessError(
                "a key is needed from anywhere but this machine",
                hint=f"{_SEND_KEY}; make one with: millgate keys create",
            )
        if self.keyless == "never" or (self.keyless == "auto" and await self._had_key()):
            raise AccessError("a key is needed", hint=_SEND_KEY)
        return Caller(self.tenant, frozenset(SCOPES))

    async def _valid_key(self, hashed: str) -> Key | None:
        """The key with this digest, unless it is revoked; "" is the digest of none."""
        if not hashed:
            return None
        key: Key | None = await self._read_cached(hashed, lambda: self.keys.find_digest(hashed))
        return None if key is None or key.revoked is not None else key

    async def _had_key(self) -> bool:
        return bool(await self._read_cached("", lambda: had_key(self.keys)))

    async def _read_cached(self, name: str, read: Callable[[], object]) -> Any:  # noqa: ANN401  (whatever was read)
        value, when, until = self._cache.get(name) or (None, -math.inf, -math.inf)
        if self.clock() < until:
            return value
        try:
            value = await asyncio.to_thread(read)
            when = self.clock()
            until = when + CACHE_S
        except StoreError:
            until = self.clock() + PAUSE_S
            if until > when + OUTAGE_S:
                raise
        self._cache.put(name, (value, when, until))
        return value


def _as_caller(key: Key) -> Caller:
    scopes = SCOPES if "admin" in key.scopes else key.scopes
    return Caller(key.tenant, frozenset(scopes), key.id, key.digest)


def had_key(keys: Keys) -> bool:
    """Whether any key exists or existed. Revoking the last key must not reopen keyless access."""
    return bool(keys.list_keys(all_tenants=True))


def has_active_key(keys: Keys) -> bool:
    """Whether any key exists that is not revoked."""
    return any(key.revoked is None for key in keys.list_keys(all_tenants=True))


def require_scope(scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency of a route: the caller, who must have the scope."""

    async def require(request: Request) -> Caller:
        caller = state_of(request).caller
        if caller is None:
            raise AccessError("a key is needed", hint=_SEND_KEY)
        if scope not in caller.scopes:
            raise missing_scope(scope, caller.scopes)
        return caller

    return require


@lru_cache(maxsize=16)  # a name may be as long as a head
def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _token(headers: Headers) -> str:
    own = headers.get(b"x-millgate-key", b"").decode("latin-1").strip()
    if own:
        return own
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    key: bytes = headers.get(b"x-api-key") or headers.get(b"x-goog-api-key", b"")
    return key.decode("latin-1").strip()


def _comes_from_loopback(scope: AsgiScope) -> bool:
    client = scope.get("client")
    return client is not None and is_loopback(client[0])


def _is_direct(scope: AsgiScope, headers: Headers) -> bool:
    """Whether this machine itself sent the request: not forwarded by a proxy, nor asked for by a foreign page."""
    if scope.get("http_version") == "1.0" or any(map(_is_of_proxy, headers)):
        return False
    try:
        host = urlsplit("//" + headers.get(b"host", b"").decode("latin-1"))
    except ValueError:
        return False
    # Host never names a user; urlsplit would take evil.example@localhost for localhost
    return host.username is None and is_loopback(host.hostname or "") and is_same_origin(headers)


def _is_of_proxy(name: bytes) -> bool:
    return name in _PROXY_HEADERS or name.startswith((b"x-forwarded", b"cf-"))
