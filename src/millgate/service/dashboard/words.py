"""Words: counts with their nouns, and what became of a model's answer, as people say it."""

from collections.abc import Sequence

from millgate.guard.report import LOOP_ERRORS
from millgate.types import TraceSummary

_ENDINGS = {
    "off": "not watched",
    "clean": "no loop",
    "recovered": "a loop was cut",
    "passed": "passed on as it was",
    "abandoned": "given up by the agent",
    "broken": "the answer broke off",
    "ended": "ended: a circle of tool calls",
}


def count(number: float, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 fold", "2,000 folds"."""
    return f"{number:,.0f} {noun if number == 1 else plural or noun + 's'}"


def describe_outcome(outcome: str, degraded: Sequence[str], status: int = 0) -> str:
    """What became of a model call."""
    if outcome == "unanswered":
        return f"no answer: {status or 'not reached'}"
    if outcome != "failed":
        return _ENDINGS.get(outcome, outcome)
    return "the model kept looping" if _kept_looping(degraded) else "the answer broke off"


def kept_looping(row: TraceSummary) -> bool:
    """Whether the model looped again after every cut."""
    return row.outcome == "failed" and _kept_looping(row.degraded)


def looped(row: TraceSummary) -> bool:
    """Whether a loop was cut from the answer of a model call."""
    return row.outcome == "recovered" or kept_looping(row)


def other_reasons(row: TraceSummary) -> list[str]:
    """What else did not go as planned: what the outcome says already is left out."""
    if not kept_looping(row):
        return list(row.degraded)
    return [reason for reason in row.degraded if not _kept_looping([reason])]


def _kept_looping(degraded: Sequence[str]) -> bool:
    """Each reason is 'stage: error'."""
    return any(reason.rpartition(": ")[2] in LOOP_ERRORS for reason in degraded)
