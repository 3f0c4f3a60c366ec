"""FoldPolicy: whose requests are folded, and which sessions are left alone to compare with."""

from hashlib import blake2b
from typing import Literal

from pydantic import Field

from millgate.types.policy import ByScope, Policy, Unit, mode_in

Mode = Literal["off", "measure", "on"]


class FoldPolicy(Policy):
    """Whether what already stands in the window is folded into pointers on its way to the model."""

    mode: Mode = "off"
    """off; measure: work out what folding would save, and change nothing; on."""
    holdout: Unit = 0.0
    """Share of the sessions that are only measured although folding is on, to compare both; 0.5 is every other one."""
    by: ByScope[Mode] = Field(default={})
    """Other modes for single sessions, API keys and upstreams, which count in this order:
    {"session:nightly" = "off", "key:3f2a" = "on", "upstream:anthropic" = "measure"}.
    """

    def mode_for(self, *, upstream: str = "", key: str = "", session: str = "") -> Mode:
        """The mode for a request."""
        return mode_in(self.by, self.mode, session=session, key=key, upstream=upstream)

    def is_held_out(self, session: str) -> bool:
        """Whether a session is one of those that are left alone to compare with: always the same ones."""
        digest = blake2b(session.encode("utf-8", "replace"), digest_size=8).digest()
        return int.from_bytes(digest) < self.holdout * 2**64
