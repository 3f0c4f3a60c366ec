"""Accounts: who may call, with which secrets, and what was spent."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Secret:
    """A signing key and until when it may verify (None: it is the one in use)."""

    key: bytes = field(repr=False)
    created: float = 0.0
    expires: float | None = None


Scope = Literal["read", "write", "review", "proxy", "admin"]


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as it is kept: whose it is and what it may do, with the hash of its secret, never the secret."""

    id: str
    digest: str
    tenant: str
    scopes: tuple[str, ...] = ("read",)
    """Scopes; "proxy:NAME" is the scope proxy for one upstream alone."""
    name: str = ""
    created: float = 0.0
    revoked: float | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """A size in tokens, and in millionths of a currency."""

    tokens: int = 0
    micros: int = 0


SpendScope = Literal["session", "key", "tenant"]


@dataclass(frozen=True, slots=True)
class Spend:
    """What a session, a key or a tenant (name "") has spent since it was last resumed, and in all.

    Held is what calls under way are expected to spend. A rate is a smoothed size of one call.
    """

    scope: SpendScope
    name: str = ""
    tokens: int = 0
    micros: int = 0
    calls: int = 0
    held_tokens: int = 0
    held_micros: int = 0
    held_at: float = 0.0
    total_tokens: int = 0
    total_micros: int = 0
    total_calls: int = 0
    rate_tokens: float = 0.0
    rate_micros: float = 0.0
    since: float = 0.0
    last: float = 0.0
    paused: float | None = None
