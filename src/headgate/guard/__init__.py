"""The guard: watches the model's stream, cuts loops out of it, and lets the model go on."""

from headgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from headgate.guard.counting import CountingDetector, CountPolicy
from headgate.guard.detectors import Detector, RepeatDetector, Stall
from headgate.guard.entropy import EntropyDetector
from headgate.guard.policy import GuardPolicy
from headgate.guard.report import Cut, GuardReport, State
from headgate.guard.resume import PUBLISHED_DIVERGENCE, Call
from headgate.guard.rollback import TRANSITIONS, Session
from headgate.guard.stream import Guard, GuardedStream
from headgate.guard.unit_kinds import RepeatPolicy

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
    "Piece",
    "RepeatDetector",
    "RepeatPolicy",
    "Session",
    "Stall",
    "State",
]
