"""Recorder: the trace of a request, written while it happens.

Each stage runs through the recorder: it is timed, what it sifted is remembered, and every candidate keeps its last
note. A stage that fails is replaced by what stands in for it, with the reason in its step. So a request survives its
parts, and nothing that went wrong is hidden. This is the only place where any exception is caught: what is expected
(bugs.py) makes a degraded step; anything else makes one that is marked as a bug, and is logged with its traceback.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, overload

from headgate.bugs import EXPECTED, describe, report
from headgate.notes import Stage
from headgate.types import Candidate, Sifted, Step

T = TypeVar("T")


class HasSifted(Protocol):
    """A result of a stage that holds what it sifted among other things."""

    @property
    def sifted(self) -> Sifted: ...  # noqa: D102


S = TypeVar("S", bound=Sifted | HasSifted)


class TraceRecorder:
    """The steps of one request, and each candidate with its notes so far."""

    def __init__(self, tick: Callable[[], float]) -> None:
        self._tick = tick
        self._began = tick()
        self._steps: list[Step] = []
        self._latest: dict[str, Candidate] = {}

    @overload
    def run(
        self, stage: Stage, received: Sequence[Candidate], work: Callable[[], Sifted]
    ) -> Sifted: ...
    @overload
    def run(
        self, stage: Stage, received: Sequence[Candidate], work: Callable[[], S], *, instead: S
    ) -> S: ...

    def run(
        self,
        stage: Stage,
        received: Sequence[Candidate],
        work: Callable[[], Sifted | S],
        *,
        instead: S | None = None,
    ) -> Sifted | S:
        """Run a stage that sifts; when it fails, what came in (or `instead`) stands."""
        done = Sifted(kept=tuple(received)) if instead is None else instead
        with self._guard(stage) as attempt:
            done = work()
        self._record(attempt, received, done)
        return done

    async def arun(
        self,
        stage: Stage,
        received: Sequence[Candidate],
        work: Callable[[], Awaitable[S]],
        *,
        instead: S,
    ) -> S:
        """The same for a stage that waits."""
        done = instead
        with self._guard(stage) as attempt:
            done = await work()
        self._record(attempt, received, done)
        return done

    def attempt(
        self,
        stage: Stage,
        work: Callable[[], T],
        *,
        instead: T,
        timed: bool = False,
        fatal: tuple[type[Exception], ...] = (),
    ) -> T:
        """Run work that sifts nothing. A step is recorded when it fails, or always when `timed`.

        Errors that are `fatal` are raised: they are the caller's to mend.
        """
        done = instead
        with self._guard(stage, fatal) as attempt:
            done = work()
        if timed or attempt.degraded:
            self._steps.append(attempt.step())
        return done

    def annotate(self, stage: Stage, facts: Mapping[str, float | str]) -> None:
        """Put facts into the last step of that stage."""
        for at, step in reversed(list(enumerate(self._steps))):
            if step.stage is stage:
                self._steps[at] = replace(step, facts={**step.facts, **facts})
                return

    def degrade(self, stage: Stage, reason: str) -> None:
        """Record that something did not go as planned."""
        self._steps.append(Step(stage, 0.0, degraded=reason))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return tuple(self._steps)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate as its last stage left it: what is still kept first, best first."""
        return self.select(lambda _: True)

    def select(self, wanted: Callable[[Candidate], bool]) -> tuple[Candidate, ...]:
        """Those candidates that are wanted, in the same order."""
        chosen = filter(wanted, self._latest.values())
        parted = Sifted.split(sorted(chosen, key=lambda c: -c.score))
        return parted.kept + parted.dropped

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self._tick() - self._began

    @contextmanager
    def _guard(self, stage: Stage, fatal: tuple[type[Exception], ...] = ()) -> Iterator["_Attempt"]:
        """Time what happens inside, and keep its failure inside."""
        attempt = _Attempt(stage)
        began = self._tick()
        try:
            yield attempt
        except fatal:
            raise
        except EXPECTED as error:
            attempt.degraded = describe(error)
        except Exception as error:  # noqa: BLE001  a bug: seen, counted, and survived
            report(error, stage)
            attempt.degraded, attempt.bug = describe(error), True
        attempt.seconds = self._tick() - began

    def _record(
        self, attempt: "_Attempt", received: Sequence[Candidate], done: Sifted | HasSifted
    ) -> None:
        sifted = done if isinstance(done, Sifted) else done.sifted
        self._steps.append(attempt.step(len(received), sifted))
        for candidate in (*sifted.kept, *sifted.dropped):
            self._latest[candidate.chunk.id] = candidate


@dataclass(slots=True)
class _Attempt:
    """One stage while it runs."""

    stage: Stage
    seconds: float = 0.0
    degraded: str = ""
    bug: bool = False

    def step(self, received: int = 0, sifted: Sifted | None = None) -> Step:
        """The step it has become."""
        kept, dropped, added = (
            (len(sifted.kept), len(sifted.dropped), len(sifted.added)) if sifted else (0, 0, 0)
        )
        return Step(
            self.stage, self.seconds, received, kept, dropped, added, self.degraded, self.bug
        )  # fmt: skip
