"""Savings: how many tokens of what was found a context does not repeat, because the window shows them."""

from dataclasses import replace
from functools import cache

from millgate.text.fence import fence_cost
from millgate.text.tokens import estimate_tokens
from millgate.types import SAVED_TOKENS, SIDE_SOURCES, Candidate, Trace
from millgate.types.notes import Fate, NoteCode, Stage

FINDING = frozenset({Stage.RETRIEVE, Stage.PROPAGATE, Stage.MEMORY, Stage.GRAPH})


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
    """How many tokens fewer were given than if what the window shows already had been sent too.

    That is what was shown and what the window holds, best first, as much as `k` and the budget take, less what was
    shown. Nothing else counts: what would not have been sent anyway saves nothing by being left out.
    """
    found = [
        (score, c)
        for c in trace.candidates
        if (not c.dropped or c.notes[-1].code is NoteCode.IN_WINDOW)
        and (score := _score_as_found(c)) is not None
    ]
    budget = trace.budget - _fence_tokens()
    sent, chunks = 0, 0
    for _, candidate in sorted(found, key=lambda pair: -pair[0]):
        aside = candidate.chunk.source in SIDE_SOURCES
        if not aside and trace.request.k is not None and chunks >= trace.request.k:
            continue
        known = candidate.number(Stage.GATE, "tokens")
        cost = estimate_tokens(candidate.chunk.text) if known is None else int(known)
        if sent + cost <= budget:
            sent += cost
            chunks += not aside
    shown = (c.number(Stage.COMPOSE, "tokens") or 0 for c in trace.candidates if not c.dropped)
    return max(0, sent - int(sum(shown)))


@cache
def _fence_tokens() -> int:
    """What the fence of a context takes, counted once: numpy lets go of the interpreter, and metrics are counted on
    the event loop.
    """
    return fence_cost(estimate_tokens)


def _score_as_found(candidate: Candidate) -> float | None:
    """The score before any stage judged it; None if it was found only because of how others were judged."""
    score = None
    for note in candidate.notes:
        if note.stage in (Stage.EXPAND, Stage.SEARCH):
            return None
        if note.stage in FINDING:
            score = None if note.fate is Fate.DROP else note.score
    return score
