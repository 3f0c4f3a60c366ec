"""Report: what the guard did to one stream, what that cost, and the states a stream goes through."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from millgate.errors import LoopError, PartialCallError

LOOP_ERRORS = frozenset({LoopError.__name__, PartialCallError.__name__})
"""What a failed answer ended with if it looped; another broke off."""


class State(StrEnum):
    """Where a guarded stream is."""

    IDLE = "idle"
    GENERATING = "generating"
    RECOVERING = "recovering"
    DONE = "done"
    FAILED = "failed"
    CLOSED = "closed"


TRANSITIONS: Mapping[tuple[State, str], State] = {
    (State.IDLE, "start"): State.GENERATING,
    (State.GENERATING, "end"): State.DONE,
    (State.GENERATING, "stall"): State.RECOVERING,
    (State.RECOVERING, "resume"): State.GENERATING,
    (State.RECOVERING, "finish"): State.DONE,  # complete tool calls stand; nothing more is asked
    (State.RECOVERING, "give up"): State.FAILED,
    (State.IDLE, "error"): State.FAILED,
    (State.GENERATING, "error"): State.FAILED,
    (State.RECOVERING, "error"): State.FAILED,
    (State.IDLE, "leave"): State.CLOSED,
    (State.GENERATING, "leave"): State.CLOSED,
    (State.RECOVERING, "leave"): State.CLOSED,
}


@dataclass(frozen=True, slots=True)
class Cut:
    """One rollback: on which channel, the run that was found, what was cut and what the client kept of it.

    `at` is how much of the channel the client has before the cut, `text` the beginning of what was cut.
    """

    channel: str
    position: int
    onset: int
    period: int
    reason: str
    unit: str
    cut_chars: int
    at: int = 0
    text: str = ""


@dataclass(slots=True)
class GuardReport:
    """What happened to one stream, up to now.

    Tokens are estimates of the counter in use. `wasted_tokens` were generated and cut, `resent_tokens` are the prompts
    of the calls after the first: both are paid. How much more of a loop would have come, nobody knows: at most
    `unused_tokens`, what the severed calls had left of `max_tokens` (0 if the limit is not known).
    """

    state: State = State.IDLE
    rollbacks: int = 0
    calls: int = 0
    sent_chars: int = 0
    cut_chars: int = 0
    held_chars: int = 0
    wasted_tokens: int = 0
    resent_tokens: int = 0
    unused_tokens: int = 0
    ended: str = ""
    passed_on: str = ""
    """Why the rest of the answer, or a repetition behind the last cut, passed without being cut; empty: nothing did."""
    warnings: list[str] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)
