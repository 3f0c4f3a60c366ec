"""The guard: watches the model's stream, cuts loops out of it, and lets the model go on.

Names resolve on first use, so that whoever needs only the policies of the guard, as the settings do, does not load it
all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
    from headgate.guard.counting import CountingDetector, CountPolicy
    from headgate.guard.detectors import RepeatDetector
    from headgate.guard.entropy import EntropyDetector
    from headgate.guard.policy import GuardPolicy
    from headgate.guard.report import TRANSITIONS, Cut, GuardReport, State
    from headgate.guard.resume import PUBLISHED_DIVERGENCE, Call
    from headgate.guard.rollback import Session
    from headgate.guard.stall import Detector, HoldingDetector, PrimedDetector, Stall
    from headgate.guard.stream import Guard, GuardedStream
    from headgate.guard.unit_kinds import RepeatPolicy

_HOME = {
    "CONTENT": "channels",
    "EVENT": "channels",
    "PUBLISHED_DIVERGENCE": "resume",
    "REASONING": "channels",
    "TOOL": "channels",
    "TRANSITIONS": "report",
    "Call": "resume",
    "CountPolicy": "counting",
    "CountingDetector": "counting",
    "Cut": "report",
    "Detector": "stall",
    "EntropyDetector": "entropy",
    "Guard": "stream",
    "GuardPolicy": "policy",
    "GuardReport": "report",
    "GuardedStream": "stream",
    "HoldingDetector": "stall",
    "Piece": "channels",
    "PrimedDetector": "stall",
    "RepeatDetector": "detectors",
    "RepeatPolicy": "unit_kinds",
    "Session": "rollback",
    "Stall": "stall",
    "State": "report",
}

__all__ = [
    "CONTENT",
    "EVENT",
    "PUBLISHED_DIVERGENCE",
    "REASONING",
    "TOOL",
    "TRANSITIONS",
    "Call",
    "CountPolicy",
    "CountingDetector",
    "Cut",
    "Detector",
    "EntropyDetector",
    "Guard",
    "GuardPolicy",
    "GuardReport",
    "GuardedStream",
    "HoldingDetector",
    "Piece",
    "PrimedDetector",
    "RepeatDetector",
    "RepeatPolicy",
    "Session",
    "Stall",
    "State",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
