"""Parameters: the settings and request fields that can be changed so that a stage accepts a chunk.

The range of a parameter begins at its present value and ends at the value that rejects least: position 0 is the
present value, a higher position a larger change. So "the smallest change" is the lowest position that admits the
chunk, whatever type the parameter has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millgate.types import Request, Trace
from millgate.types.notes import NoteCode, Stage

FINE = 1000  # thresholds between 0 and 1 are lowered in thousandths
MAX_WIDENING = 10_000  # chunks that a search is widened to at most, as limits.k allows by default


@dataclass(frozen=True, slots=True)
class ParameterRange:
    """The positions of a parameter: 0 is its present value, `size` the one that rejects least."""

    size: int
    value: Callable[[int], Any]
    was: Any = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its name, its stage, and the code of the rejections it may undo (None: any of the stage)."""

    name: str
    stage: Stage
    range_of: Callable[[Trace, Any], ParameterRange]
    code: NoteCode | None = None

    def may_undo(self, stage: Stage, code: NoteCode | None) -> bool:
        """Whether changing it may undo a rejection by the stage."""
        return stage is self.stage and self.code in (None, code)


def _budget(trace: Trace, _: Any) -> ParameterRange:  # noqa: ANN401
    """Up to where every candidate fits, even at a token a character with its framing."""
    now = trace.request.budget
    most = 1000 + sum(len(c.chunk.text) + len(c.chunk.title) + 64 for c in trace.candidates)
    return ParameterRange(most, lambda at: now + at, now)


def _k(trace: Trace, _: Any) -> ParameterRange:  # noqa: ANN401
    now = trace.request.k or 0
    return ParameterRange(max(0, len(trace.candidates) - now), lambda at: now + at, trace.request.k)


def _more(default: int) -> Callable[[Trace, Any], ParameterRange]:
    """A count that grows from its present value."""

    def range_of(_: Trace, setting: Any) -> ParameterRange:  # noqa: ANN401
        now = default if setting is None else int(setting)
        return ParameterRange(max(0, MAX_WIDENING - now), lambda at: now + at, setting)

    return range_of


def _lower(top: float | None = None) -> Callable[[Trace, Any], ParameterRange]:
    """A threshold that falls to 0; one that is not set falls from `top`."""

    def range_of(_: Trace, setting: Any) -> ParameterRange:  # noqa: ANN401
        now = float(top or 0.0) if setting is None else float(setting)
        steps = int(now * FINE) + (now * FINE > int(now * FINE))
        return ParameterRange(steps, lambda at: max(0.0, round(now - at / FINE, 6)), setting)

    return range_of


def _lower_band(trace: Trace, setting: Any) -> ParameterRange:  # noqa: ANN401
    """The band of grading under which all is refused; one that is not set is the grader's, which its notes name."""
    refused = (n for c in trace.candidates for n in c.notes if n.code is NoteCode.ALL_INCORRECT)
    noted = next((note.numbers["lower"] for note in refused), 1.0)
    return _lower()(trace, noted if setting is None else setting)


def _switch(to: bool) -> Callable[[Trace, Any], ParameterRange]:  # noqa: FBT001
    return lambda _, __: ParameterRange(1, lambda at: to if at else not to, not to)


def _used_tokens(trace: Trace, _: Any) -> ParameterRange:  # noqa: ANN401
    window = trace.request.context_budget
    now = window.used_tokens if window else 0
    return ParameterRange(now, lambda at: now - at, now)


PARAMETERS = (
    Parameter("used_tokens", Stage.DECIDE, _used_tokens),
    Parameter("retrieve.keep", Stage.RETRIEVE, _more(100)),
    Parameter("propagate.keep", Stage.RETRIEVE, _more(100)),
    Parameter("propagate.keep", Stage.PROPAGATE, _more(100)),
    Parameter("retrieve.keep", Stage.PROPAGATE, _more(100)),
    Parameter("facts.min_trust", Stage.MEMORY, _lower(1.0)),
    Parameter("facts.min_relevance", Stage.MEMORY, _lower(1.0)),
    Parameter("facts.limit", Stage.MEMORY, _more(5)),
    Parameter("graph.keep", Stage.GRAPH, _more(10)),
    Parameter("penalize", Stage.PENALIZE, _switch(to=False)),
    Parameter("penalize", Stage.EXPAND, _switch(to=False)),
    Parameter("penalize.enabled", Stage.PENALIZE, _switch(to=False)),
    Parameter("k", Stage.GATE, _k, NoteCode.BEYOND_K),
    Parameter("gate.min_ratio", Stage.GATE, _lower(), NoteCode.BOILERPLATE),
    Parameter("gate.min_entropy", Stage.GATE, _lower(), NoteCode.LOW_ENTROPY),
    Parameter("grade.floor", Stage.GATE, _lower(), NoteCode.NOISE),
    Parameter("floor", Stage.GATE, _lower(), NoteCode.NOISE),
    Parameter("budget", Stage.GATE, _budget, NoteCode.NO_ROOM),
    Parameter("grade.lower", Stage.GRADE, _lower_band, NoteCode.ALL_INCORRECT),
    Parameter("grade.enabled", Stage.GRADE, _switch(to=False)),
    Parameter("budget", Stage.COMPOSE, _budget),
)


def current_value(parameter: Parameter, request: Request, settings: Any) -> Any:  # noqa: ANN401  (any setting's value)
    """The value that a parameter has now, in the request or in the settings."""
    group, _, name = parameter.name.partition(".")
    if not name:
        return getattr(request, group, None)
    return getattr(getattr(settings, group, None), name, None)


def is_known(parameter: Parameter, settings: Any) -> bool:  # noqa: ANN401
    """Whether the pipeline in use has this parameter."""
    group, _, name = parameter.name.partition(".")
    return not name or hasattr(getattr(settings, group, None), name)
