"""Story: what happened to a request, told while it happens.

Each stage is run through the story: it is timed, what it sifted is remembered, and every candidate keeps its last
word. A stage that fails is replaced by what stands in for it, with the reason in its step: so a request survives its
parts, and nothing that went wrong is hidden.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar, overload

from headgate.errors import HeadgateError
from headgate.types import Candidate, Sifted, Step

# What a broken part may raise: our own errors, the operating system's, and those of bad values.
SOFT = (HeadgateError, OSError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError,
        RuntimeError, MemoryError)  # fmt: skip

T = TypeVar("T")


class Sifting(Protocol):
    """An answer of a stage that holds what it sifted among other things."""

    @property
    def sifted(self) -> Sifted: ...  # noqa: D102


S = TypeVar("S", bound=Sifting)


class Story:
    """The steps of one request, and the latest word on each candidate."""

    def __init__(self, tick: Callable[[], float]) -> None:
        self._tick = tick
        self._began = tick()
        self._steps: list[Step] = []
        self._fates: dict[str, Candidate] = {}

    @overload
    def sift(self, stage: str, came: Sequence[Candidate], work: Callable[[], Sifted]) -> Sifted: ...
    @overload
    def sift(
        self, stage: str, came: Sequence[Candidate], work: Callable[[], S], *, instead: S
    ) -> S: ...

    def sift(
        self,
        stage: str,
        came: Sequence[Candidate],
        work: Callable[[], Sifted | S],
        *,
        instead: S | None = None,
    ) -> Sifted | S:
        """Run a stage that sifts; when it fails, what came in (or `instead`) stands."""
        done, step = self._run(
            stage, work, Sifted(kept=tuple(came)) if instead is None else instead
        )
        self._tell(step, came, done)
        return done

    async def asift(
        self, stage: str, came: Sequence[Candidate], work: Callable[[], Awaitable[S]], *, instead: S
    ) -> S:
        """The same for a stage that waits."""
        began = self._tick()
        done, degraded = instead, ""
        try:
            done = await work()
        except SOFT as error:
            degraded = said(error)
        self._tell(Step(stage, self._tick() - began, degraded=degraded), came, done)
        return done

    def soften(self, stage: str, work: Callable[[], T], *, instead: T) -> T:
        """Run work that sifts nothing; a step is told only when it fails."""
        done, step = self._run(stage, work, instead)
        if step.degraded:
            self._steps.append(step)
        return done

    def mark(self, stage: str, facts: Mapping[str, float | str]) -> None:
        """Put numbers into the last step of that stage."""
        for at, step in reversed(list(enumerate(self._steps))):
            if step.stage == stage:
                self._steps[at] = replace(step, facts={**step.facts, **facts})
                return

    def degrade(self, stage: str, reason: str) -> None:
        """Say that something did not go as planned."""
        self._steps.append(Step(stage, 0.0, degraded=reason))

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

    def _run(self, stage: str, work: Callable[[], T], instead: T) -> tuple[T, Step]:
        began = self._tick()
        done, degraded = instead, ""
        try:
            done = work()
        except SOFT as error:
            degraded = said(error)
        return done, Step(stage, self._tick() - began, degraded=degraded)

    def _tell(self, step: Step, came: Sequence[Candidate], done: Sifted | Sifting) -> None:
        sifted = done if isinstance(done, Sifted) else done.sifted
        told = replace(
            step,
            came=len(came),
            kept=len(sifted.kept),
            dropped=len(sifted.dropped),
            added=len(sifted.added),
        )
        self._steps.append(told)
        self._fates.update((c.chunk.id, c) for c in (*sifted.kept, *sifted.dropped))


def said(error: BaseException) -> str:
    """An error in one line: ours speak for themselves, others name their kind."""
    return str(error) if isinstance(error, HeadgateError) else f"{type(error).__name__}: {error}"
