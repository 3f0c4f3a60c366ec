"""Figures: how the candidates of a request relate to the window, and what that saved, counted from its trace.

The request log, the performance log and the metrics share these numbers. `log_keys` has them under the names that
published/self_reference.py's design gives to the keys of its log line, and under no other.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from millgate.text.redact import redact
from millgate.text.tokens import estimate_tokens
from millgate.types import SAVED_TOKENS, SIDE_SOURCES, Trace
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


def with_savings(trace: Trace) -> Trace:
    """The trace with what it saved among the facts of its last stage, so that lists need not weigh its candidates
    again.
    """
    steps = tuple(
        replace(step, facts={**step.facts, SAVED_TOKENS: tokens_saved(trace)})
        if step.stage is Stage.COMPOSE
        else step
        for step in trace.steps
    )
    return replace(trace, steps=steps)


def tokens_saved(trace: Trace) -> int:
    """The tokens of passages that were left out because the window shows them, as far as there was room for them.

    What would not have been sent anyway, beyond the budget or `k`, saves nothing by being left out.
    """
    shown = [c for c in trace.candidates if not c.dropped]
    held = [c for c in trace.candidates if c.dropped and c.notes[-1].code is NoteCode.IN_WINDOW]
    if (k := trace.request.k) is not None:
        held = held[: max(0, k - sum(c.chunk.source not in SIDE_SOURCES for c in shown))]
    room = trace.budget - sum(c.number(Stage.COMPOSE, "tokens") or 0 for c in shown)
    return int(min(max(0, room), sum(estimate_tokens(c.chunk.text) for c in held)))
