"""The guard: watches the model's stream, cuts loops out of it, and lets the model go on."""

from headgate.guard.detectors import Detector, EntropyDetector, RepeatDetector, Stall
from headgate.guard.units import RepeatPolicy

__all__ = ["Detector", "EntropyDetector", "RepeatDetector", "RepeatPolicy", "Stall"]
