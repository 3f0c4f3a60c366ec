"""CompactionPolicy: what is done about compactions. By default they are noticed and told, and nothing is kept."""

from collections.abc import Mapping
from typing import Literal

from headgate.policy import Policy, PositiveCount

Mode = Literal["off", "observe", "keep", "inject"]
MODES: tuple[Mode, ...] = ("off", "observe", "keep", "inject")


class CompactionPolicy(Policy):
    """What is done when an agent compacts its window: it is told; what left is kept; or it is also put back."""

    keep: bool = False
    """Whether what left a window is kept in a collection of its session, so that it can be asked for."""
    inject: bool = False
    """Whether rules and to-dos that are gone, and what a question needs, are put back; what left is kept then too."""
    budget: PositiveCount = 1000
    """Most tokens that one block may have."""
    by_key: Mapping[str, Mode] = {}
    """Other settings for single API keys, by the id of the key: off, observe, keep or inject."""
    by_upstream: Mapping[str, Mode] = {}
    """Other settings for single upstreams, by name."""

    def mode_for(self, key: str, upstream: str) -> Mode:
        """What is done for a call with this key to this upstream; the key's own setting stands first."""
        own = self.by_key.get(key) or self.by_upstream.get(upstream)
        return own or ("inject" if self.inject else "keep" if self.keep else "observe")
