"""Story: what happened to a request, told while it happens.

Each stage is run through the story: it is timed, its Sifted is remembered, and every candidate keeps its last
word. A stage that fails is replaced by what came in, with the reason; this is how a request survives its parts.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from headgate.errors import HeadgateError
from headgate.types import Candidate, Sifted, Step

# What a broken part may raise: our own errors, the operating system's, and those of bad values.
SOFT = (HeadgateError, OSError, ArithmeticError, LookupError, TypeError, ValueError,
        AttributeError, RuntimeError, TimeoutError, MemoryError)  # fmt: skip

T = TypeVar("T")


class Story:
    """The steps of one request, and the latest word on each candidate."""

    def __init__(self, tick: Callable[[], float]) -> None:
        self._tick = tick
        self._began = tick()
        self._steps: list[Step] = []
        self._fates: dict[str, Candidate] = {}

    def sift(self, stage: str, came: Sequence[Candidate], work: Callable[[], Sifted]) -> Sifted:
        """Run a stage that sifts; when it fails, what came in stands as it was."""
        sifted = self.soften(stage, work, Sifted(kept=tuple(came)))
        self.tell(sifted, came)
        return sifted

    def soften(self, stage: str, work: Callable[[], T], instead: T) -> T:
        """Run some work as a step; when it fails, `instead` stands in and the step is degraded."""
        began = self._tick()
        try:
            done, degraded = work(), ""
        except SOFT as error:
            done, degraded = instead, _said(error)
        self._steps.append(Step(stage, self._tick() - began, degraded=degraded))
        return done

    async def wait(self, stage: str, work: Callable[[], Awaitable[T]], instead: T) -> T:
        """The same for work that waits."""
        began = self._tick()
        try:
            done, degraded = await work(), ""
        except SOFT as error:
            done, degraded = instead, _said(error)
        self._steps.append(Step(stage, self._tick() - began, degraded=degraded))
        return done

    def tell(
        self,
        sifted: Sifted,
        came: Sequence[Candidate],
        facts: Mapping[str, float | str] | None = None,
    ) -> None:
        """Put what the last step sifted into the story."""
        last = self._steps.pop()
        self._steps.append(
            Step(
                last.stage,
                last.seconds,
                came=len(came),
                kept=len(sifted.kept),
                dropped=len(sifted.dropped),
                added=len(sifted.added),
                degraded=last.degraded,
                facts=facts or {},
            )
        )
        self._fates.update((c.chunk.id, c) for c in (*sifted.kept, *sifted.dropped))

    def note(self, stage: str, degraded: str) -> None:
        """Say that something did not go as planned."""
        self._steps.append(Step(stage, 0.0, degraded=degraded))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return tuple(self._steps)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate with its last word: what is still kept first, best first."""
        return tuple(sorted(self._fates.values(), key=lambda c: (c.dropped, -c.score)))

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self._tick() - self._began


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, HeadgateError) else f"{type(error).__name__}: {error}"
