"""Usage over the calls of one answer: the sum for the client, and the share of each call beside it.

A call that was severed told no usage of its own in most APIs, so its share is estimated and says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.guard.dialects.dialect import Usage

INPUT = ("prompt_tokens", "input_tokens")
OUTPUT = ("completion_tokens", "output_tokens")


class UsageSum:
    """Usage of the current call, and of those before it."""

    def __init__(self) -> None:
        self._severed: list[Usage] = []
        self.current: Usage = {}
        """What the current call said last; later numbers replace earlier ones."""

    def __bool__(self) -> bool:
        return bool(self._severed)

    def note(self, usage: Usage | None) -> None:
        """The current call tells its usage."""
        if usage:
            self.current = {**self.current, **usage}

    def sever(self, estimate: Usage) -> None:
        """The current call was severed: what it told, and estimates for what it did not."""
        told = {name: value for name, value in self.current.items() if value}
        self._severed.append({**estimate, **told, "estimated": told.keys() < estimate.keys()})
        self.current = {}

    def total(self, usage: Usage, figures: Mapping[str, Any]) -> Usage:
        """The usage of the last call with all others added; the figures and the share of each call beside it."""
        last = {**self.current, **usage}
        calls = [*self._severed, last]
        sums = {
            name: sum(_int(call.get(name)) for call in calls)
            for name, value in last.items()
            if isinstance(value, int) and not isinstance(value, bool)
        }
        return {**usage, **sums, "headgate": {**figures, "calls": calls}}

    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of all calls so far, whatever their API calls them."""
        calls = [*self._severed, self.current]
        return _sum(calls, INPUT), _sum(calls, OUTPUT)


def _sum(calls: Sequence[Usage], names: Sequence[str]) -> int:
    return sum(_int(call.get(name)) for call in calls for name in names)


def _int(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
