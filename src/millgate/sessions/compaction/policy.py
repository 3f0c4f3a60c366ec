"""CompactionPolicy: what is done about compactions. By default they are noticed and told, and nothing is kept."""

from typing import Literal

from pydantic import Field

from millgate.types.policy import ByScope, Policy, PositiveCount, mode_in

Mode = Literal["off", "observe", "keep", "inject"]


class CompactionPolicy(Policy):
    """What is done when an agent compacts its window."""

    mode: Mode = "observe"
    """off; observe: tell what left and what is gone; keep: also keep what left in a collection of its session; inject:
    also put back rules and to-dos that are gone, and what a question needs.
    """
    budget: PositiveCount = 1000
    """Most tokens that one block may have."""
    by: ByScope[Mode] = Field(default={})
    """Other modes for single sessions, API keys and upstreams, which count in this order:
    {"session:nightly" = "off", "key:3f2a" = "keep", "upstream:local" = "inject"}.
    """

    def mode_for(self, *, upstream: str = "", key: str = "", session: str = "") -> Mode:
        """The mode for a call."""
        return mode_in(self.by, self.mode, session=session, key=key, upstream=upstream)
