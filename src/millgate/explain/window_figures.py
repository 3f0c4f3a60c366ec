"""Window figures: how the candidates of a request relate to the window, counted from its trace.

The request log, the performance log and the metrics share these numbers. `log_keys` has them under the names that
published/self_reference.py's design gives to the keys of its log line, and under no other.
"""

from typing import Any, NamedTuple

from millgate.text.redact import redact
from millgate.types import Trace
from millgate.types.notes import Fate, NoteCode, Stage


class WindowFigures(NamedTuple):
    """How the candidates of a request relate to the window: each one's overlap, and what came of it."""

    overlaps: tuple[float, ...]
    candidate_count: int
    penalized_count: int
    exact_duplicate_count: int
    expansion_triggered: bool
    novel_result_count: int
    expanded_count: int
    """Candidates of the second pass that stayed."""


def window_figures(trace: Trace) -> WindowFigures:
    """The figures of a trace."""
    known = (c.number(Stage.PENALIZE, "overlap") for c in trace.candidates)
    overlaps = tuple(overlap for overlap in known if overlap is not None)
    notes = [note for c in trace.candidates for note in c.notes]
    return WindowFigures(
        overlaps=overlaps,
        candidate_count=len(trace.candidates),
        penalized_count=sum(overlap > 0 for overlap in overlaps),
        exact_duplicate_count=sum(note.code is NoteCode.IN_WINDOW for note in notes),
        expansion_triggered=any(step.stage is Stage.EXPAND for step in trace.steps),
        novel_result_count=sum(note.code is NoteCode.NEW for note in notes),
        expanded_count=sum(
            any(n.stage is Stage.EXPAND and n.fate is not Fate.DROP for n in c.notes)
            and not c.dropped
            for c in trace.candidates
        ),
    )


def log_keys(trace: Trace) -> dict[str, Any]:
    """What a log line says of a request's session and window."""
    figures = window_figures(trace)
    return {
        "session_id": redact(trace.request.session),
        "candidate_count": figures.candidate_count,
        "penalized_count": figures.penalized_count,
        "exact_duplicate_count": figures.exact_duplicate_count,
        "expansion_triggered": figures.expansion_triggered,
        "novel_result_count": figures.novel_result_count,
    }
