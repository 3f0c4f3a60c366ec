"""CirclesPolicy: what is done about an agent that repeats its calls, and when.

It is apart from the code that it steers: every command reads the settings, and few of them look for circles.
"""

from collections.abc import Mapping
from typing import Literal

from millgate.types.policy import Count, Policy

CircleStep = Literal["note", "list", "end"]
# Copies of a circle at which each step is reached; the third is the first that `check` finds.
STEPS: Mapping[CircleStep, int] = {"note": 3, "list": 5, "end": 8}


class CirclesPolicy(Policy):
    """When an agent that repeats the same calls with the same results is told so, and when its turn is ended."""

    rungs: Mapping[CircleStep, Count] = STEPS
    """Copies at which a note is added, the note lists what was tried, the turn is ended; left out or 0: never."""
    by_key: Mapping[str, Mapping[CircleStep, Count]] = {}
    """Other rungs for single API keys, by the id of the key; an empty table switches all off."""

    def for_key(self, key: str) -> "CirclesPolicy":
        """The policy for the calls of one key."""
        return CirclesPolicy(rungs=self.by_key[key]) if key in self.by_key else self

    @property
    def active(self) -> tuple[tuple[int, CircleStep], ...]:
        """The steps that are on, highest first; of two at one height the stronger first."""
        strength: tuple[CircleStep, ...] = ("end", "list", "note")
        on = [(self.rungs[step], step) for step in strength if self.rungs.get(step)]
        return tuple(sorted(on, key=lambda step: -step[0]))
