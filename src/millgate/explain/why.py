"""Why: where a chunk fell, and the smallest change with which it would have entered.

The parameter behind the rejection is set to the value that rejects least, the request runs again, and so on until the
chunk enters. Then each parameter is moved back as far as the chunk still enters. Every step is a run of the real
pipeline, so the changes named were seen to work; for each of them one step less was seen not to work, unless the runs
or the time were used up before: then the smallest change that was seen to work by then is named.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

from millgate.errors import ConfigError
from millgate.explain.as_data import note_data
from millgate.explain.parameters import (
    PARAMETERS,
    Parameter,
    ParameterRange,
    current_value,
    is_known,
)
from millgate.explain.replay import Changes, apply_changes, request_of
from millgate.types import Context, Request, Trace
from millgate.types.notes import Note, NoteCode, Stage

RUNS = 64  # of the pipeline for one answer; then the change that was seen to work is named, though less might do
# Of CPU for one answer. In a collection of 3 000 documents a run takes 0.3 s, and 64 runs took 17 s.
BUDGET_S = 5.0
WAIT_S = 20.0  # for one answer on a busy machine: a third of what a request has by default (service.deadline_s)
ROUNDS = 8  # stages that may reject a chunk one after the other


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One thing to set otherwise: its name, how it was, and how it would have to be."""

    name: str
    was: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Why:
    """What became of one chunk in one request.

    `entered`: it was shown. Else `stage` and `reason` say where it fell, and `changes`, applied together, admit it;
    none if no setting does, and then `note` says so.
    """

    trace: str
    chunk: str
    entered: bool
    stage: Stage | Literal[""] = ""
    reason: str = ""
    notes: tuple[Note, ...] = ()
    changes: tuple[SettingChange, ...] = ()
    note: str = ""
    runs: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The answer as plain values."""
        return asdict(self) | {"notes": [note_data(note) for note in self.notes]}


class CountedRun(Protocol):
    """Builds a context under changed settings, leaving no trace behind, and counts the CPU that it takes."""

    cpu_s: float

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was made."""
        ...

    async def __call__(self, request: Request, changes: Changes) -> Context:
        """One run."""


async def why(trace: Trace, chunk: str, run: CountedRun, settings: Any) -> Why:  # noqa: ANN401  (any object with the policies)
    """Where a chunk fell in a stored request, and what would have admitted it."""
    candidate, notes = trace.find(chunk), trace.notes_on(chunk)
    if candidate and not candidate.dropped:
        return Why(trace.id, chunk, entered=True, notes=notes, note="it was shown")
    rejection = first_rejection(trace, chunk)
    answer = Why(
        trace.id, chunk, entered=False, stage=rejection.stage, reason=rejection.reason, notes=notes
    )
    if rejection.code is NoteCode.NOT_NEEDED:
        return replace(answer, note="no setting decides this: a question gets back what stands out")
    if not trace.request.query:
        return replace(answer, note="the trace was stored without text, so nothing can be tried")
    search = _Search(trace, chunk, run, settings)
    changes = await search.changes()
    return replace(answer, changes=changes, note=search.note, runs=search.runs)


@dataclass(frozen=True, slots=True)
class Rejection:
    """What left a chunk out: the stage, why, and the code of its note."""

    stage: Stage
    reason: str
    code: NoteCode


def first_rejection(trace: Trace, chunk: str) -> Rejection:
    """What left a chunk out that was not shown."""
    last = trace.notes_on(chunk)[-1]
    return Rejection(last.stage, last.reason, last.code)


@dataclass(slots=True)
class _Search:
    """Runs one request under other settings, again and again, until one of them shows the chunk."""

    trace: Trace
    chunk: str
    run: CountedRun
    settings: Any
    runs: int = 0
    note: str = ""
    _tried: dict[str, tuple[ParameterRange, int]] = field(default_factory=dict)
    """By parameter: its range, and the position it has now."""

    async def changes(self) -> tuple[SettingChange, ...]:
        """The smallest changes that admit the chunk, or none."""
        if not await self._undo_rejections():
            return ()
        if not self._tried:
            self.note = "it would enter now: the collection has changed since"
            return ()
        for name in list(self._tried):
            await self._tighten(name)
        return tuple(
            SettingChange(name, values.was, values.value(at)) for name, (values, at) in self._tried.items() if at
        )  # fmt: skip

    async def _undo_rejections(self) -> bool:
        """Change what rejects the chunk, one parameter after the other; True if it enters in the end."""
        for _ in range(ROUNDS):
            if stopped := self._name_limit_reached():
                self.note = f"{stopped}: no change was found by then that admits it"
                return False
            made = await self._attempt()
            if made is None:
                self.note = "the settings that would admit it contradict others"
                return False
            if self._has_entered(made):
                return True
            rejection = first_rejection(made.trace, self.chunk)
            parameter = self._next(rejection)
            if parameter is None:
                self.note = (
                    f"no setting admits it; it falls at {rejection.stage}: {rejection.reason}"
                )
                return False
            now = current_value(parameter, self.trace.request, self.settings)
            values = parameter.range_of(made.trace, now)
            self._tried[parameter.name] = (values, values.size)
        self.note = f"no setting admits it after {ROUNDS} changes"
        return False

    def _next(self, rejection: Rejection) -> Parameter | None:
        """A parameter that may undo this rejection and was not tried yet."""
        for parameter in PARAMETERS:
            fits = parameter.may_undo(rejection.stage, rejection.code)
            if fits and is_known(parameter, self.settings) and parameter.name not in self._tried:
                return parameter
        return None

    async def _tighten(self, name: str) -> None:
        """Move one parameter back to the lowest position at which the chunk still enters, the others as they are."""
        values, size = self._tried[name]
        if self._stops():
            return
        bare = await self._try(name, 0)
        if bare is not None and self._has_entered(bare):
            lowest = 0
        else:
            lowest = await self._lowest(name, size)
        self._tried[name] = (values, lowest)

    async def _lowest(self, name: str, size: int) -> int:
        """A position that admits the chunk, with one below it that does not: leap up, then halve."""
        below, above = 0, 1
        while above < size and not await self._enters(name, above):
            below, above = above, above * 2
        above = min(above, size)
        while above - below > 1:
            middle = (below + above) // 2
            if await self._enters(name, middle):
                above = middle
            else:
                below = middle
        return above

    async def _enters(self, name: str, at: int) -> bool:
        if self._stops():
            return False
        made = await self._try(name, at)
        return made is not None and self._has_entered(made)

    def _stops(self) -> bool:
        """Whether no smaller change can be looked for any more, which the note says then."""
        stopped = self._name_limit_reached()
        if stopped:
            self.note = f"{stopped}: a smaller change may do"
        return bool(stopped)

    def _name_limit_reached(self) -> str:
        """What of runs and time is used up; "" if there is more of both."""
        if self.runs >= RUNS:
            return f"stopped after {RUNS} runs"
        if self.run.cpu_s >= BUDGET_S:
            return f"stopped after {BUDGET_S:g} seconds of CPU"
        if self.run.elapsed_s >= WAIT_S:
            return f"stopped after {WAIT_S:g} seconds"
        return ""

    async def _try(self, name: str, at: int) -> Context | None:
        """Run with one setting at another position, then put the position back."""
        former = self._tried[name]
        self._tried[name] = (former[0], at)
        try:
            return await self._attempt()
        finally:
            self._tried[name] = former

    async def _attempt(self) -> Context | None:
        """The request under the present positions; None if those settings contradict others."""
        changes = {name: values.value(at) for name, (values, at) in self._tried.items() if at}
        self.runs += 1
        try:
            return await self.run(*apply_changes(request_of(self.trace), changes))
        except ConfigError:
            return None

    def _has_entered(self, made: Context) -> bool:
        return any(chunk.id == self.chunk for chunk in made.chunks)
