"""API keys: made once, shown once, kept as a hash.

A key is 32 random bytes, so one round of SHA-256 is enough: there is nothing to guess it from.
`admin` opens what concerns the whole service (metrics) and holds the other three scopes for its tenant.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from typing import Final, NamedTuple, get_args

from headgate.errors import InputError
from headgate.types import Key, Scope

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
OURS: Final = "hg_"  # how each key begins
_FORM = re.compile(OURS + r"[A-Za-z0-9_-]{43}")


class Minted(NamedTuple):
    """A new key: its token, to be shown once, and what is kept of it."""

    token: str
    key: Key


def mint(tenant: str, scopes: Sequence[str], *, name: str = "", now: float) -> Minted:
    """A new key for a tenant."""
    known: list[Scope] = [scope for scope in SCOPES if scope in scopes]
    if unknown := set(scopes) - set(SCOPES):
        raise InputError(
            f"{', '.join(sorted(unknown))} is not a scope", hint=f"scopes are {', '.join(SCOPES)}"
        )
    token = OURS + token_urlsafe(32)
    key = Key(token_hex(4), digest(token), tenant, tuple(known), name, created=now)
    return Minted(token, key)


def digest(token: str) -> str:
    """What a token is found by."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_well_formed(token: str) -> bool:
    """Whether a text could be a key at all, so that nonsense never reaches the store."""
    return _FORM.fullmatch(token) is not None
