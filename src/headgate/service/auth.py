"""Auth: whose a request is, and what it may do.

A key in `x-headgate-key`, `Authorization: Bearer` or `x-api-key` gives tenant and scopes. Without one only a caller on this machine is
let in, for the tenant of the settings: its address is loopback, it named us by a loopback name (else a web page
could reach us by rebinding its own name), no foreign page sent it, and no proxy stands between.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope as Asgi

from headgate.errors import AccessError, ScopeError
from headgate.protocols import Keys
from headgate.service.keys import OURS, SCOPES, digest, formed
from headgate.service.proxy.paths import is_proxied
from headgate.service.request_state import Caller, visit_of
from headgate.types import Key, Scope

FRESH_S = (
    2.0  # how long what was read of a key is believed, so: how soon a revoked one stops working
)
REMEMBERED = 10_000  # keys remembered at once

Headers = Mapping[bytes, bytes]


class Auth:
    """Knows callers by their key, or by being on this machine."""

    def __init__(
        self,
        store: Keys,
        tenant: str,
        *,
        keyless: str = "auto",
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._keyless = keyless
        self._tick = tick
        self._known: OrderedDict[str, tuple[float, Any]] = OrderedDict()

    async def caller(self, scope: Asgi) -> Caller:
        """Who asks; an error where that cannot be told."""
        headers: Headers = dict(scope["headers"])
        token = _token(headers)
        if not token or (is_proxied(scope.get("path", "")) and not token.startswith(OURS)):
            return await self._local(scope, headers)  # another service's key is for that service
        key = await self._key(token)
        if key is None or key.revoked is not None:
            raise AccessError("the key is not valid", hint="make one with: headgate keys create")
        held = SCOPES if "admin" in key.scopes else key.scopes
        return Caller(key.tenant, frozenset(held), key.id)

    async def _local(self, scope: Asgi, headers: Headers) -> Caller:
        if not (_near(scope) and _named_local(headers)):
            raise AccessError(
                "a key is needed from anywhere but this machine",
                hint="send it as 'Authorization: Bearer hg_…'; make one with: headgate keys create",
            )
        if self._keyless == "never" or (self._keyless == "auto" and await self._locked()):
            raise AccessError("a key is needed", hint="send it as 'Authorization: Bearer hg_…'")
        return Caller(self._tenant, frozenset(SCOPES))

    async def _key(self, token: str) -> Key | None:
        if not formed(token):
            return None
        hashed = digest(token)
        key: Key | None = await self._fresh(hashed, lambda: self._store.key(hashed))
        return key

    async def _locked(self) -> bool:
        """Whether any key works, so that callers without one are no longer let in."""
        return bool(await self._fresh("", lambda: locked(self._store)))

    async def _fresh(self, name: str, read: Callable[[], object]) -> Any:  # noqa: ANN401  (what was read)
        known = self._known.get(name)
        if known and self._tick() - known[0] < FRESH_S:
            return known[1]
        value = await asyncio.to_thread(read)
        self._known[name] = (self._tick(), value)
        self._known.move_to_end(name)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return value


def locked(store: Keys) -> bool:
    """Whether there is a key that works."""
    return any(key.revoked is None for key in store.keys())  # noqa: SIM118  (a store, not a mapping)


def need(scope: Scope) -> Callable[[Request], Caller]:
    """A dependency: the caller, where it has the scope."""

    async def allowed(request: Request) -> Caller:
        caller = visit_of(request).caller
        if caller is None:
            raise AccessError("a key is needed", hint="send it as 'Authorization: Bearer hg_…'")
        if scope not in caller.scopes:
            raise ScopeError(
                f"this key lacks the scope {scope}",
                hint=f"make one with: headgate keys create --scope {scope}",
            )
        return caller

    return allowed  # type: ignore[return-value]  # the framework awaits it


def loopback(host: str) -> bool:
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
    return headers.get(b"x-api-key", b"").decode("latin-1").strip()


def _near(scope: Asgi) -> bool:
    client = scope.get("client")
    return client is not None and loopback(client[0])


def _named_local(headers: Headers) -> bool:
    if b"forwarded" in headers or b"x-forwarded-for" in headers:
        return False
    named = [b"//" + headers.get(b"host", b"")]
    if b"origin" in headers:
        named.append(headers[b"origin"])
    try:
        return all(loopback(urlsplit(name.decode("latin-1")).hostname or "") for name in named)
    except ValueError:
        return False
