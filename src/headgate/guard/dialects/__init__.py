"""Wires: the event formats of providers, read into pieces and written back as one unbroken stream.

A wire reads the events of each call, and writes what the guard lets out as events of the first call:
one id, one numbering, no second beginning, and text that adds up, however often the call was repeated.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headgate.guard.channels import Piece

Event = dict[str, Any]


class Wire(Protocol):
    """One event format. `read` and `write` keep what they must know between events."""

    def restart(self) -> None:
        """A new call begins."""

    def read(self, event: Event) -> Sequence[Piece]:
        """An event of the provider as pieces."""

    def write(self, piece: Piece) -> Sequence[Event]:
        """A piece for the client as events."""

    def finish(self, ended: str) -> Sequence[Event]:
        """The events that end a stream which the guard ended itself."""

    def sampling(self, changed: Mapping[str, float], asked: Mapping[str, Any]) -> dict[str, float]:
        """Changed sampling as parameters of this provider; never cooler than what was asked for."""

    def structured(self, asked: Mapping[str, Any]) -> bool:
        """Whether the request asks for structured output."""

    def limit(self, asked: Mapping[str, Any]) -> int:
        """The request's limit of tokens, 0 where there is none."""


def warmer(
    changed: Mapping[str, float], asked: Mapping[str, Any], names: Sequence[str]
) -> dict[str, float]:
    """The larger of what was asked for and what is changed, for the names a provider knows."""
    return {
        name: max(value, float(asked.get(name) or 0))
        for name, value in changed.items()
        if name in names
    }
