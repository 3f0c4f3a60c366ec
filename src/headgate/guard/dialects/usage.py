"""Usage over the calls of one answer: the sum for the client, and the share of each call beside it.

A call that was severed reported no usage in most APIs, so its share is estimated and marked so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headgate.guard.dialects.dialect import Usage

INPUT = ("prompt_tokens", "input_tokens")
DETAILS = ("prompt_tokens_details", "input_tokens_details")
OUTPUT = ("completion_tokens", "output_tokens")


class CachedInput(NamedTuple):
    """Tokens read from a provider's cache: within its count of input (OpenAI), or read and written beside it
    (Anthropic).
    """

    within: int = 0
    read: int = 0
    written: int = 0


class UsageSum:
    """Usage of the current call, and of those before it."""

    def __init__(self) -> None:
        self._severed: list[Usage] = []
        self.current: Usage = {}
        """What the current call said last; later numbers replace earlier ones."""

    def __bool__(self) -> bool:
        return bool(self._severed)

    def note(self, usage: Usage | None) -> None:
        """The current call reports its usage."""
        if usage:
            self.current = {**self.current, **usage}

    def sever(self, estimate: Usage) -> None:
        """The current call was severed: what it reported, and estimates for the rest."""
        reported = {name: value for name, value in self.current.items() if value}
        is_estimate = reported.keys() < estimate.keys()
        self._severed.append({**estimate, **reported, "estimated": is_estimate})
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

    def cached_input(self) -> "CachedInput":
        """Input of all calls so far that the provider's cache has to do with."""
        calls = [*self._severed, self.current]
        details = [call.get(name) for call in calls for name in DETAILS]
        return CachedInput(
            within=_sum(
                [found for found in details if isinstance(found, dict)], ("cached_tokens",)
            ),
            read=_sum(calls, ("cache_read_input_tokens",)),
            written=_sum(calls, ("cache_creation_input_tokens",)),
        )

    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of all calls so far, whatever their API calls them."""
        calls = [*self._severed, self.current]
        return _sum(calls, INPUT), _sum(calls, OUTPUT)


def _sum(calls: Sequence[Usage], names: Sequence[str]) -> int:
    return sum(_int(call.get(name)) for call in calls for name in names)


def _int(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
