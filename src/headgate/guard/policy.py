"""GuardPolicy: the knobs of a guarded stream."""

from collections.abc import Mapping
from typing import Literal

from headgate.guard.resume import SAMPLING, Resume
from headgate.policy import Count, Policy, Positive, PositiveCount, Tuning


class GuardPolicy(Policy):
    """How a stream is watched, held back and resumed."""

    enabled: bool = True
    """Off: the stream passes untouched."""
    max_rollbacks: Count = 3
    """Rollbacks of one stream; one more stall raises LoopError."""
    max_wasted_tokens: Tuning[PositiveCount] = 100_000
    """Tokens that may be cut from one stream before it is given up."""
    max_history_chars: Tuning[PositiveCount] = 4_000_000
    """Longest answer that can still be resumed; a longer one is watched, but a stall ends it."""
    hold_back: bool = True
    """Keep the tail back while a repetition is suspected."""
    max_hold_chars: Tuning[PositiveCount] = 16_384
    """Most characters held back; more are let through. Two copies of the longest unit fit."""
    max_hold_s: Tuning[Positive] = 60.0
    """Longest time anything is held back."""
    keep_alive_s: Positive = 10.0
    """How often the keep-alive hook is called while text is held back."""
    idle_s: Positive = 300.0
    """Longest silence of the model before the stream is given up."""
    boundary_chars: Tuning[Count] = 80
    """How far the cut may move on to end at a line, a sentence or a word."""
    resume: Resume = "auto"
    """prefill, continuation or restart; auto: continuation for plain words, prefill for a token."""
    sampling: Tuning[tuple[Mapping[str, float], ...]] = SAMPLING
    """Changed sampling by attempt; empty: never changed."""
    rescue_upstream: str = ""
    """In the proxy: the upstream that makes the last try, with a key of its own; empty: the same as before."""
    rescue_model: str = ""
    """The model to ask there; empty: the one that was asked for."""
    reasoning: Tuning[bool] = True
    """Watch the reasoning channel too."""
    tool_calls: Literal["whole", "pass"] = "whole"
    """Deliver each tool call when it is complete, so that a looping one can be asked for again; or pass it on."""
    counting: Literal["warn", "cut", "off"] = "warn"
    """What to do about counting loops: note them in the report, cut them like others, or do not look."""
