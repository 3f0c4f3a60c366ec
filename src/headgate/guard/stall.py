"""Stall: the verdict of a detector, and what a detector is: text in, the first stall inside it out. No I/O."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Stall:
    """The verdict: where it fell, where the repetition begins, its period (0: unknown), and why."""

    position: int
    onset: int
    period: int
    reason: str
    unit: str = ""

    @property
    def repeats(self) -> float:
        """Copies of the unit between onset and position; 0 where the period is unknown."""
        return (self.position - self.onset) / self.period if self.period else 0.0


@runtime_checkable
class Detector(Protocol):
    """Text in, the first stall inside it out."""

    def feed(self, text: str) -> Stall | None: ...  # noqa: D102
    def reset(self) -> None: ...  # noqa: D102


@runtime_checkable
class HoldingDetector(Detector, Protocol):
    """A detector that suspects a repetition before it is sure of it.

    `hold` is the offset from which the stream should hold its text back; None while there is no suspicion.
    """

    @property
    def hold(self) -> int | None: ...  # noqa: D102


@runtime_checkable
class PrimedDetector(Detector, Protocol):
    """A detector that can begin behind a text, as after a rollback; others begin with nothing."""

    def prime(self, text: str) -> None: ...  # noqa: D102
