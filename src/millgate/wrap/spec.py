"""GatewaySpec: what the user asks of a gateway and the supervisor tells it; light, so that the agent starts at once."""

from dataclasses import dataclass

LOST_STORE = (
    b"x-millgate-lost-store"  # of a gateway's numbers: that it works without its store, and why
)
MEMORY = ":memory:"
"""The store of a gateway that keeps nothing."""
UPSTREAM = "wrapped"
"""The name under which the gateway knows the supervisor as its upstream."""


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """What a gateway shall be: its store, what it adds or folds, whom it asks, and who may ask it."""

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
    fail_closed: bool = False
    """Whether a call that no gateway can count under a cap is refused, and none goes straight to its service."""
    upstream: str = ""
    """The supervisor's address, which the supervisor sets, as it does the secret."""
    secret: str = ""
