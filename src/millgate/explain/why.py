"""Why: where a chunk fell, and the smallest change with which it would have entered.

The parameter behind the rejection is set to the value that rejects least, the request runs again, and so on until the
chunk enters. Then each parameter is moved back as far as the chunk still enters. Every step is a run of the real
pipeline, so the changes named were seen to work; for each of them one step less was seen not to work, unless the runs
or the time were used up before: then the smallest change that was seen to work by then is named.

The range of a parameter begins at its present value and ends at the value that rejects least: position 0 is the
present value, a higher position a larger change. So "the smallest change" is the lowest position that admits the
chunk, whatever type the parameter has.
"""

from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, Final, Literal, NamedTuple, Protocol

from millgate.errors import ConfigError
from millgate.explain.as_data import note_data
from millgate.explain.replay import Changes, apply_changes, request_of
from millgate.types import Context, Request, Trace
from millgate.types.notes import Note, NoteCode, Stage

RUNS = 64  # of the pipeline for one answer; then the change that was seen to work is named, though less might do
# Of CPU for one answer. In a collection of 3 000 documents a run takes 0.3 s, and 64 runs took 17 s.
BUDGET_S = 5.0
WAIT_S = 20.0  # for one answer on a busy machine: a third of what a request has by default (service.deadline_s)
ROUNDS = 8  # stages that may reject a chunk one after the other
FINE = 1000  # thresholds between 0 and 1 are lowered in thousandths
MAX_WIDENING = 10_000  # chunks that a search is widened to at most, as limits.k allows by default

PARAMETERS: Final[tuple[tuple[str, Stage, NoteCode | None], ...]] = (
    ("used_tokens", Stage.DECIDE, None),
    ("retrieve.keep", Stage.RETRIEVE, None),
    ("propagate.keep", Stage.RETRIEVE, None),
    ("propagate.keep", Stage.PROPAGATE, None),
    ("retrieve.keep", Stage.PROPAGATE, None),
    ("facts.min_trust", Stage.MEMORY, None),
    ("facts.min_relevance", Stage.MEMORY, None),
    ("facts.limit", Stage.MEMORY, None),
    ("graph.keep", Stage.GRAPH, None),
    ("penalize", Stage.PENALIZE, None),
    ("penalize", Stage.EXPAND, None),
    ("penalize.enabled", Stage.PENALIZE, None),
    ("k", Stage.GATE, NoteCode.BEYOND_K),
    ("gate.min_ratio", Stage.GATE, NoteCode.BOILERPLATE),
    ("gate.min_entropy", Stage.GATE, NoteCode.LOW_ENTROPY),
    ("grade.floor", Stage.GATE, NoteCode.NOISE),
    ("floor", Stage.GATE, NoteCode.NOISE),
    ("budget", Stage.GATE, NoteCode.NO_ROOM),
    ("grade.lower", Stage.GRADE, NoteCode.ALL_INCORRECT),
    ("grade.enabled", Stage.GRADE, None),
    ("budget", Stage.COMPOSE, None),
)
"""Settings and fields of a request, the stage whose rejections each may undo, and of which code if not of any."""
_COUNTS: Final = {"retrieve.keep": 100, "propagate.keep": 100, "facts.limit": 5, "graph.keep": 10}
"""Those that are counts, with the value that one has which is not set."""


class ParameterRange(NamedTuple):
    """The positions of a parameter: 0 is its present value, `size` the one that rejects least."""

    was: Any
    start: float
    step: float
    size: int

    def value(self, at: int) -> Any:  # noqa: ANN401  (any setting's value)
        """The value at a position."""
        if isinstance(self.was, bool):
            return self.was is not bool(at)
        return max(0, round(self.start + self.step * at, 6))


def range_of(name: str, trace: Trace, was: Any) -> ParameterRange:  # noqa: ANN401  (any setting's value)
    """The range of a parameter that has this value now."""
    if isinstance(was, bool):
        return ParameterRange(was, 0, 0, 1)
    if name == "budget":
        # up to where every candidate fits, even at a token a character with its framing
        texts = sum(len(c.chunk.text) + len(c.chunk.title) + 64 for c in trace.candidates)
        return ParameterRange(was, was, 1, 1000 + texts)
    if name == "k":
        return ParameterRange(was, was or 0, 1, max(0, len(trace.candidates) - (was or 0)))
    if name == "used_tokens":
        window = trace.request.context_budget
        used = window.used_tokens if window else 0
        return ParameterRange(used, used, -1, used)
    if name in _COUNTS:
        count = _COUNTS[name] if was is None else int(was)
        return ParameterRange(was, count, 1, max(0, MAX_WIDENING - count))
    top = 1.0 if name.startswith("facts.") else 0.0
    if (
        name == "grade.lower" and was is None
    ):  # one that is not set is the grader's, which its notes name
        refused = (n for c in trace.candidates for n in c.notes if n.code is NoteCode.ALL_INCORRECT)
        was = next((note.numbers["lower"] for note in refused), 1.0)
    now = top if was is None else float(was)
    return ParameterRange(was, now, -1 / FINE, ceil(now * FINE))


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
    fell = notes[-1]
    answer = Why(trace.id, chunk, entered=False, stage=fell.stage, reason=fell.reason, notes=notes)
    if fell.code is NoteCode.NOT_NEEDED:
        return replace(answer, note="no setting decides this: a question gets back what stands out")
    if not trace.request.query:
        return replace(answer, note="the trace was stored without text, so nothing can be tried")
    search = _Search(trace, chunk, run, settings)
    changes = await search.changes()
    return replace(answer, changes=changes, note=search.note, runs=search.runs)


class _Search:
    """Runs one request under other settings, again and again, until one of them shows the chunk."""

    def __init__(self, trace: Trace, chunk: str, run: CountedRun, settings: Any) -> None:  # noqa: ANN401  (as above)
        self.runs, self.note = 0, ""
        self._trace, self._chunk, self._run, self._settings = trace, chunk, run, settings
        self._tried: dict[str, tuple[ParameterRange, int]] = {}
        """By parameter: its range, and the position it has now."""

    async def changes(self) -> tuple[SettingChange, ...]:
        """The smallest changes that admit the chunk, or none."""
        if not await self._undo_rejections():
            return ()
        if not self._tried:
            self.note = "it would enter now: the collection has changed since"
        for name, (values, size) in list(self._tried.items()):
            self._tried[name] = values, await self._lowest(name, size)
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
            fell = made.trace.notes_on(self._chunk)[-1]
            if not self._change_next(fell, made.trace):
                self.note = f"no setting admits it; it falls at {fell.stage}: {fell.reason}"
                return False
        self.note = f"no setting admits it after {ROUNDS} changes"
        return False

    def _change_next(self, fell: Note, trace: Trace) -> bool:
        """Set a parameter that may undo this rejection, and was not tried yet, to what rejects least."""
        for name, stage, code in PARAMETERS:
            group, _, setting = name.rpartition(".")
            owner = getattr(self._settings, group, None) if group else self._trace.request
            is_known = not group or hasattr(owner, setting)
            if (
                fell.stage is stage
                and code in (None, fell.code)
                and is_known
                and name not in self._tried
            ):
                values = range_of(name, trace, getattr(owner, setting, None))
                self._tried[name] = (values, values.size)
                return True
        return False

    async def _lowest(self, name: str, size: int) -> int:
        """The lowest position of a parameter that admits the chunk, the others as they are: leap up, then halve."""
        if await self._enters(name, 0):
            return 0
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
        """Whether the chunk enters with one setting at another position, which is put back then."""
        if stopped := self._name_limit_reached():
            self.note = f"{stopped}: a smaller change may do"
            return False
        former = self._tried[name]
        self._tried[name] = (former[0], at)
        try:
            made = await self._attempt()
        finally:
            self._tried[name] = former
        return made is not None and self._has_entered(made)

    def _name_limit_reached(self) -> str:
        """What of runs and time is used up; "" if there is more of both."""
        if self.runs >= RUNS:
            return f"stopped after {RUNS} runs"
        if self._run.cpu_s >= BUDGET_S:
            return f"stopped after {BUDGET_S:g} seconds of CPU"
        return f"stopped after {WAIT_S:g} seconds" if self._run.elapsed_s >= WAIT_S else ""

    async def _attempt(self) -> Context | None:
        """The request under the present positions; None if those settings contradict others."""
        changes = {name: values.value(at) for name, (values, at) in self._tried.items() if at}
        self.runs += 1
        try:
            return await self._run(*apply_changes(request_of(self._trace), changes))
        except ConfigError:
            return None

    def _has_entered(self, made: Context) -> bool:
        return any(chunk.id == self._chunk for chunk in made.chunks)
