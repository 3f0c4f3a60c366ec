"""Auth: whose a request is, and what it may do.

A key in `x-headgate-key`, `Authorization: Bearer`, `x-api-key` or `x-goog-api-key` names the tenant and the scopes; on
pages of the dashboard the key does with which a session was begun. A caller without a key is let in only from this
machine, for the tenant of the settings. From this machine means: the address is loopback, the Host header is a
loopback name (else a web page could reach us by rebinding its own name), no page of another origin sent the request,
and no proxy stands between. An address that keeps sending keys that do not exist must wait.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope as AsgiScope

from headgate.errors import AccessError, BusyError
from headgate.keys import OURS, SCOPES, Keys, digest, is_well_formed, missing_scope
from headgate.service.dashboard.cookies import sessions_in_cookies
from headgate.service.dashboard.sessions import SignedIn, is_token
from headgate.service.origin import Headers, is_same_origin
from headgate.service.paths import is_proxied
from headgate.service.proxy.conversation_state import ConversationState
from headgate.service.request_state import Caller, state_of
from headgate.text.cache import Cache
from headgate.types import Key, Scope

# Seconds for which a key that was read is trusted, and so how soon a revoked one stops working.
CACHE_S = 2.0
_KEY_BYTES = 650  # of a key that was read, with its digest, tenant, scopes and label
_CACHE_BYTES = 9_000_000  # 10 000 keys
# Keys that do not exist, from one address: 20 at once, then one a second. A person mistypes
# less often, and guessing costs no reads of the store.
FAILURES_ALLOWED = 20
FAILURES_PER_S = 1.0
MAX_ADDRESSES = 10_000  # that are counted, which bounds the memory

_SEND_KEY = "send it as 'Authorization: Bearer hg_…'"

# What reverse proxies and load balancers add. nginx adds nothing by default, but speaks HTTP/1.0.
_PROXY_HEADERS = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip"}
    | {b"fastly-client-ip", b"x-envoy-external-address", b"x-original-host", b"x-proxyuser-ip"}
)


class Auth:
    """Identifies callers by their key, or by being on this machine."""

    def __init__(
        self,
        keys: Keys,
        tenant: str,
        *,
        keyless: str = "auto",
        signed_in: SignedIn | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.signed_in = signed_in or SignedIn(ConversationState())
        """The sessions of the dashboard."""
        self._keys = keys
        self._tenant = tenant
        self._keyless = keyless
        self._clock = clock
        # what was read, and when; without it every request would read the store
        self._cache = Cache[str, tuple[float, Any]](_CACHE_BYTES, lambda *_: _KEY_BYTES)
        self._failures = FailedKeys(clock)

    async def caller(self, scope: AsgiScope) -> Caller:
        """Who sent a request. AccessError if the key is missing or not valid."""
        headers: Headers = dict(scope["headers"])
        token = _token(headers)
        sessions = [] if token else sessions_in_cookies(scope)
        # On a proxied path another service's key is meant for that service.
        if not (token or sessions) or (is_proxied(scope.get("path", "")) and not token.startswith(OURS)):  # fmt: skip
            return await self._local_caller(scope, headers)
        if token:
            return _as_caller(await self.check(token, scope))
        digests = [await self.signed_in.find(session) for session in filter(is_token, sessions)]
        key = await self._valid_key(digests, scope)
        if key is not None:
            return _as_caller(key)
        try:  # another program on this host may have set that cookie; it must not close pages that need no key
            return await self._local_caller(scope, headers)
        except AccessError:
            raise AccessError(
                "this session is over, or its key is not valid", hint="sign in with a key"
            ) from None

    async def check(self, token: str, scope: AsgiScope) -> Key:
        """The key of a token. AccessError if it is not valid; a guess is counted."""
        digests = [digest(token)] if is_well_formed(token) else []
        key = await self._valid_key(digests, scope)
        if key is None:
            raise AccessError("the key is not valid", hint="make one with: headgate keys create")
        return key

    async def _local_caller(self, scope: AsgiScope, headers: Headers) -> Caller:
        if not (_comes_from_loopback(scope) and _is_direct(scope, headers)):
            raise AccessError(
                "a key is needed from anywhere but this machine",
                hint=f"{_SEND_KEY}; make one with: headgate keys create",
            )
        if self._keyless == "never" or (self._keyless == "auto" and await self._had_key()):
            raise AccessError("a key is needed", hint=_SEND_KEY)
        return Caller(self._tenant, frozenset(SCOPES))

    async def _valid_key(self, digests: Sequence[str], scope: AsgiScope) -> Key | None:
        """The first key that is valid; if none is, each that does not exist is counted."""
        unknown = 0
        for hashed in digests:
            key = await self._key(hashed, scope)
            if key is not None and key.revoked is None:
                return key
            unknown += key is None
        for _ in range(unknown):
            self._failures.count(address_of(scope))
        return None

    async def _key(self, hashed: str, scope: AsgiScope) -> Key | None:
        # A key that was valid before is read again whatever others at its address do.
        cached = self._cache.get(hashed)
        known = cached is not None and cached[1] is not None
        if not known:
            self._failures.check(address_of(scope))
        if not hashed:  # of a session that is over or was never begun
            return None
        key: Key | None = await self._read_cached(hashed, lambda: self._keys.find_digest(hashed))
        return key

    async def _had_key(self) -> bool:
        return bool(await self._read_cached("", lambda: had_key(self._keys)))

    async def _read_cached(self, name: str, read: Callable[[], object]) -> Any:  # noqa: ANN401  (whatever was read)
        cached = self._cache.get(name)
        if cached and self._clock() - cached[0] < CACHE_S:
            return cached[1]
        value = await asyncio.to_thread(read)
        self._cache.put(name, (self._clock(), value))
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
    own = headers.get(b"x-headgate-key", b"").decode("latin-1").strip()
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


class FailedKeys:
    """How many failures each address has left, and when that was counted.

    An IPv6 network of 64 bits counts as one address, since one machine has that many.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, address: str) -> None:
        """BusyError if the address has failed too often."""
        left = self._count_left(address)
        if left < 1:
            raise BusyError(
                "too many keys that are not valid came from this address",
                retry_after=(1 - left) / FAILURES_PER_S,
                hint="wait as Retry-After says, and check the key",
            )

    def count(self, address: str) -> None:
        """Count one failure."""
        self._left[address] = (self._count_left(address) - 1, self._clock())
        self._left.move_to_end(address)
        while len(self._left) > MAX_ADDRESSES:
            self._left.popitem(last=False)

    def _count_left(self, address: str) -> float:
        left, when = self._left.get(address, (float(FAILURES_ALLOWED), self._clock()))
        return min(float(FAILURES_ALLOWED), left + FAILURES_PER_S * (self._clock() - when))


def address_of(scope: AsgiScope) -> str:
    """Where a request comes from, by the network of its address."""
    host = (scope.get("client") or ("",))[0]
    try:
        address = ip_address(host)
    except ValueError:
        return str(host)
    if isinstance(address, IPv6Address) and not address.ipv4_mapped:
        return address.exploded[:19]
    return str(host)
