"""Internal: API keys (`gate.keys`), made once, shown once, kept as a hash.

`Keys` is what `gate.keys` gives: create, list and revoke the keys of one tenant.
A key is 32 random bytes, so one round of SHA-256 is enough: there is nothing to guess it from.
`admin` opens what concerns the whole service (metrics) and holds the other scopes for its tenant. `proxy` lets its
holder call models with keys that the service holds; `proxy:NAME` does so for one upstream.
"""

import re
import time
from collections.abc import Collection, Sequence
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from typing import Final, NamedTuple, get_args

from millgate.calls.loop import async_version
from millgate.errors import InputError, NotFound, ScopeError
from millgate.protocols import Clock, KeyStore
from millgate.types import Key, Scope
from millgate.types.check import explain_all_keywords

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
OURS: Final = "mg_"  # how each key begins
KEYLESS: Final = "keyless"  # the caller, if no key was needed
_FOR_ONE_UPSTREAM = re.compile(r"proxy:[\w.-]{1,100}")
_FORM = re.compile(OURS + r"[A-Za-z0-9_-]{43}")


class Minted(NamedTuple):
    """A new key: its token, to be shown once, and what is kept of it."""

    token: str
    key: Key


def mint(tenant: str, scopes: Sequence[str], *, name: str = "", now: float) -> Minted:
    """A new key for a tenant."""
    named = sorted({scope for scope in scopes if _FOR_ONE_UPSTREAM.fullmatch(scope)})
    known = [*(scope for scope in SCOPES if scope in scopes), *named]
    if unknown := set(scopes) - set(known):
        raise InputError(
            f"{', '.join(sorted(unknown))} is not a scope",
            hint=f"scopes are {', '.join(SCOPES)}, and proxy:NAME for one upstream alone",
        )
    token = OURS + token_urlsafe(32)
    key = Key(token_hex(4), digest(token), tenant, tuple(known), name, created=now)
    return Minted(token, key)


def digest(token: str) -> str:
    """What a token is found by."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def missing_scope(scope: Scope, held: Collection[str] = ()) -> ScopeError:
    """What a caller without a scope is told: which, and how to make a key that has it beside those held."""
    scopes = (*(one for one in SCOPES if one in held), scope)
    options = " ".join(f"--scope {one}" for one in scopes)
    return ScopeError(
        f"this key lacks the scope {scope}", hint=f"make one with: millgate keys create {options}"
    )


def is_well_formed(token: str) -> bool:
    """Whether a text could be a key at all, so that nonsense never reaches the store."""
    return _FORM.fullmatch(token) is not None


@explain_all_keywords
class Keys:
    """The API keys of one tenant."""

    def __init__(self, store: KeyStore, tenant: str, *, clock: Clock = time.time) -> None:
        self._store = store
        self._tenant = tenant
        self._clock = clock

    def create(self, scopes: Sequence[str] = ("read", "write"), *, name: str = "") -> Minted:
        """Make a key. Its token is in the answer and nowhere else.

        For example: `gate.keys.create(["read"], name="laptop").token`.
        """
        made = mint(self._tenant, scopes, name=name, now=self._clock())
        self._store.save_key(made.key)
        return made

    def list_keys(self, *, all_tenants: bool = False) -> Sequence[Key]:
        """The keys of this tenant, or of all, oldest first, revoked ones included.

        For example: `[key.name for key in gate.keys.list_keys()]`.
        """
        return self._store.keys(None if all_tenants else self._tenant)

    def find(self, token: str) -> Key | None:
        """The key with that token, whosever it is, revoked or not; None for an unknown one.

        For example: `gate.keys.find(token)`.
        """
        return self.find_digest(digest(token)) if is_well_formed(token) else None

    def find_digest(self, digest: str) -> Key | None:
        """The same by what a token is found by."""
        return self._store.key(digest)

    def revoke(self, id: str) -> None:
        """Let a key work no more; an error when this tenant has no working key of that id.

        For example: `gate.keys.revoke(id)`.
        """
        if not self._store.revoke(self._tenant, id):
            raise NotFound(
                f"tenant {self._tenant} has no working key {id!r}", hint="see: millgate keys list"
            )

    acreate = async_version(create)
    alist_keys = async_version(list_keys)
    afind = async_version(find)
    arevoke = async_version(revoke)
