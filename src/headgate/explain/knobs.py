"""Knobs: what can be turned so that a stage lets a chunk through.

Each knob is a scale that begins where the knob stands and ends wide open: position 0 is no change, a higher position
a larger one. So "the smallest change" is the lowest position that admits the chunk, whatever kind of knob it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.notes import NoteCode, Stage
from headgate.types import Request, Trace

FINE = 1000  # thresholds between 0 and 1 are turned in thousandths
WIDEST = 10_000  # chunks that a search is widened to at most


@dataclass(frozen=True, slots=True)
class Scale:
    """The positions of a knob: 0 is how it stands, `size` wide open."""

    size: int
    value: Callable[[int], Any]
    was: Any = None


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob by its name, the stage it belongs to, and the code that it answers to (None: any of the stage)."""

    name: str
    stage: Stage
    scale: Callable[[Trace, Any], Scale]
    code: NoteCode | None = None

    def may_undo(self, stage: Stage, code: NoteCode | None) -> bool:
        """Whether turning it may undo what the stage did."""
        return stage is self.stage and self.code in (None, code)


def _budget(trace: Trace, _: Any) -> Scale:  # noqa: ANN401
    """Up to where every candidate fits, even at a token a character with its framing."""
    now = trace.request.budget
    room = 1000 + sum(len(c.chunk.text) + len(c.chunk.title) + 64 for c in trace.candidates)
    return Scale(room, lambda at: now + at, now)


def _k(trace: Trace, _: Any) -> Scale:  # noqa: ANN401
    now = trace.request.k or 0
    return Scale(max(0, len(trace.candidates) - now), lambda at: now + at, trace.request.k)


def _more(default: int) -> Callable[[Trace, Any], Scale]:
    """A count that grows from its present value."""

    def scale(_: Trace, setting: Any) -> Scale:  # noqa: ANN401
        now = default if setting is None else int(setting)
        return Scale(max(0, WIDEST - now), lambda at: now + at, setting)

    return scale


def _lower(top: float | None = None) -> Callable[[Trace, Any], Scale]:
    """A threshold that falls to 0; one that is not set falls from `top`."""

    def scale(_: Trace, setting: Any) -> Scale:  # noqa: ANN401
        now = float(top or 0.0) if setting is None else float(setting)
        steps = int(now * FINE) + (now * FINE > int(now * FINE))
        return Scale(steps, lambda at: max(0.0, round(now - at / FINE, 6)), setting)

    return scale


def _switch(to: bool) -> Callable[[Trace, Any], Scale]:  # noqa: FBT001
    return lambda _, __: Scale(1, lambda at: to if at else not to, not to)


def _used_tokens(trace: Trace, _: Any) -> Scale:  # noqa: ANN401
    window = trace.request.context_budget
    now = window.used_tokens if window else 0
    return Scale(now, lambda at: now - at, now)


KNOBS = (
    Knob("used_tokens", Stage.DECIDE, _used_tokens),
    Knob("retrieve.keep", Stage.RETRIEVE, _more(100)),
    Knob("propagate.keep", Stage.RETRIEVE, _more(100)),
    Knob("propagate.keep", Stage.PROPAGATE, _more(100)),
    Knob("retrieve.keep", Stage.PROPAGATE, _more(100)),
    Knob("facts.min_trust", Stage.MEMORY, _lower(1.0)),
    Knob("facts.min_relevance", Stage.MEMORY, _lower(1.0)),
    Knob("facts.limit", Stage.MEMORY, _more(5)),
    Knob("graph.keep", Stage.GRAPH, _more(10)),
    Knob("penalize", Stage.PENALIZE, _switch(to=False)),
    Knob("penalize", Stage.EXPAND, _switch(to=False)),
    Knob("penalize.enabled", Stage.PENALIZE, _switch(to=False)),
    Knob("k", Stage.GATE, _k, NoteCode.BEYOND_K),
    Knob("gate.min_ratio", Stage.GATE, _lower(), NoteCode.BOILERPLATE),
    Knob("gate.min_entropy", Stage.GATE, _lower(), NoteCode.LOW_ENTROPY),
    Knob("budget", Stage.GATE, _budget, NoteCode.NO_ROOM),
    Knob("grade.lower", Stage.GRADE, _lower(1.0), NoteCode.ALL_INCORRECT),
    Knob("grade.floor", Stage.GRADE, _lower(1.0), NoteCode.LOW_CONFIDENCE),
    Knob("grade.enabled", Stage.GRADE, _switch(to=False)),
    Knob("budget", Stage.COMPOSE, _budget),
)


def current_value(knob: Knob, request: Request, settings: Any) -> Any:  # noqa: ANN401  (any setting's value)
    """The value a knob has now: in the request, or in the settings."""
    group, _, name = knob.name.partition(".")
    if not name:
        return getattr(request, group, None)
    return getattr(getattr(settings, group, None), name, None)


def is_known(knob: Knob, settings: Any) -> bool:  # noqa: ANN401
    """Whether the pipeline in use has this knob."""
    group, _, name = knob.name.partition(".")
    return not name or hasattr(getattr(settings, group, None), name)
