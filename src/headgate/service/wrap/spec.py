"""GatewaySpec: what the supervisor tells a gateway when it starts it; light, so that the supervisor stays so."""

from dataclasses import dataclass

SECRET_HEADER = b"x-headgate-wrap"
MEMORY = ":memory:"
"""The store of a gateway that keeps nothing."""
UPSTREAM = "wrapped"
"""The name under which the gateway knows the supervisor as its upstream."""


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """What a gateway shall be: whom it asks, who may ask it, its store, and what it adds or folds."""

    upstream: str
    secret: str
    store: str | None = None
    inject: bool = False
    remember: bool = False
    """Whether what the agent's compactions lose is put back."""
    fold: bool = False
    """Whether requests are folded; False: as the settings say."""
    patience_s: float = 0.8
    """What gateways may take of one turn while nothing is under way upstream; half of it without a sign of life is too
    long.
    """
