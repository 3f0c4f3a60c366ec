"""Recorder: the trace of a request, written while it happens.

    with recorder.step(Stage.GATE, fresh) as step:
        return step.sift(gate(fresh, ...))
    return fresh  # the stage failed

The block is timed, what it sifted is remembered, and every candidate keeps its last note. If the block fails, the step
says why, and the caller goes on behind the block. So a request survives its parts, and nothing that went wrong is
hidden. This is the only place of the pipeline where any exception is caught. An expected one (calls/bugs.py) makes a
degraded step, and so does a part of the user's own that exits (calls/parts.py). Any other makes a step that is marked
as a bug, and is logged with its traceback.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

from millgate.calls.bugs import EXPECTED, describe, report
from millgate.calls.parts import is_failure
from millgate.types import Candidate, Sifted, Step
from millgate.types.notes import Stage


class HasSifted(Protocol):
    """A result of a stage that holds what it sifted among other things."""

    @property
    def sifted(self) -> Sifted: ...  # noqa: D102


S = TypeVar("S", bound=Sifted | HasSifted)


class RunningStep:
    """One stage while it runs, as a `with` block: what it has sifted so far, and facts for its step.

    What it received counts as kept until it says what it sifted. Work around a stage is recorded only if it fails.
    """

    def __init__(
        self,
        recorder: "TraceRecorder",
        stage: Stage,
        received: Sequence[Candidate],
        fatal: tuple[type[Exception], ...],
        *,
        is_stage: bool = True,
    ) -> None:
        self.sifted = Sifted(kept=tuple(received))
        self.facts: dict[str, float | str] = {}
        self._recorder = recorder
        self._stage = stage
        self._received = len(received)
        self._fatal = fatal
        self._is_stage = is_stage

    def sift(self, result: S) -> S:
        """Remember what the stage kept and dropped; returns the result itself."""
        self.sifted = result if isinstance(result, Sifted) else result.sifted
        return result

    def __enter__(self) -> Self:
        self._began = self._recorder.tick()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if error is None and not self._is_stage:
            return True
        if error is not None and (not is_failure(error) or isinstance(error, self._fatal)):
            return False
        degraded, bug = survive(error, self._stage) if error else ("", False)
        kept, dropped, added = map(len, (self.sifted.kept, self.sifted.dropped, self.sifted.added))
        step = Step(
            self._stage, self._recorder.tick() - self._began,
            self._received, kept, dropped, added, degraded, bug, self.facts,
        )  # fmt: skip
        self._recorder.steps.append(step)
        for candidate in (*self.sifted.kept, *self.sifted.dropped):
            self._recorder.latest[candidate.chunk.id] = candidate
        return True


class TraceRecorder:
    """The steps of one request, and each candidate with its notes so far."""

    def __init__(
        self, tick: Callable[[], float], *, before_step: Callable[[], None] = lambda: None
    ) -> None:
        self.tick = tick
        self._before_step = before_step
        self._began = tick()
        self.steps: list[Step] = []
        self.latest: dict[str, Candidate] = {}

    def step(
        self,
        stage: Stage,
        received: Sequence[Candidate] = (),
        *,
        fatal: tuple[type[Exception], ...] = (),
    ) -> RunningStep:
        """Run a stage on what it received, unless the request is over before.

        Errors that are `fatal` are raised: without the stage nothing is known.
        """
        self._before_step()
        return RunningStep(self, stage, received, fatal)

    def attempt(self, stage: Stage, *, fatal: tuple[type[Exception], ...] = ()) -> RunningStep:
        """Run work around a stage. Errors that are `fatal` are raised: the caller can mend them."""
        return RunningStep(self, stage, (), fatal, is_stage=False)

    def degrade(self, stage: Stage, reason: str) -> None:
        """Record that something did not go as planned."""
        self.steps.append(Step(stage, 0.0, degraded=reason))

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate as its last stage left it: what is still kept first, best first."""
        parted = Sifted.split(sorted(self.latest.values(), key=lambda c: -c.score))
        return parted.kept + parted.dropped

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self.tick() - self._began


def survive(error: BaseException, stage: Stage) -> tuple[str, bool]:
    """What a step says of an error, and whether it is a bug; a bug is logged, and raised in strict mode."""
    if isinstance(error, EXPECTED) or not isinstance(error, Exception):
        return describe(error), False  # no code of ours exits: a part of the user's own did
    report(error, stage)
    return describe(error), True
