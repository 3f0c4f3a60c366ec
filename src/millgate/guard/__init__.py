"""The guard: watches a model's stream, cuts loops out of it, and lets the model go on.

It knows nothing of retrieval. A streamed chunk goes through stream.py (I/O; in the proxy service/proxy/relay.py) ->
machine.py (state machine) -> channels.py (held-back tail) -> detectors.py; after a cut resume.py words the next call.
Names resolve on first use, so that the settings, which need only the policy, do not load it all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
    from millgate.guard.detectors import (
        CountingDetector,
        CountPolicy,
        Detector,
        HoldingDetector,
        PrimedDetector,
        RepeatDetector,
        RepeatPolicy,
        Stall,
    )
    from millgate.guard.entropy import EntropyDetector
    from millgate.guard.machine import PUBLISHED_DIVERGENCE, StreamMachine
    from millgate.guard.policy import GuardPolicy
    from millgate.guard.report import TRANSITIONS, Cut, GuardReport, State
    from millgate.guard.resume import Call
    from millgate.guard.stream import Guard, GuardedStream

# Where a name is, the lightest first.
_HOMES = (
    "policy",
    "report",
    "detectors",
    "entropy",
    "resume",
    "channels",
    "machine",
    "stream",
)

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
    "Stall",
    "State",
    "StreamMachine",
]


def __getattr__(name: str) -> object:
    for home in _HOMES if name in __all__ else ():
        found = vars(import_module(f"{__name__}.{home}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
