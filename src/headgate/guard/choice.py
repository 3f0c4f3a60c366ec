"""The choice of a detector: the one that a policy names, made anew for each channel."""

from collections.abc import Callable

from headgate.guard.detectors import RepeatDetector
from headgate.guard.entropy import EntropyDetector
from headgate.guard.policy import GuardPolicy
from headgate.guard.stall import Detector, Stall


class EitherDetector:
    """Stalls where the first of two detectors does; text is held back as the first, for repetition, says."""

    def __init__(self, repeat: RepeatDetector, entropy: EntropyDetector) -> None:
        self._repeat, self._entropy = repeat, entropy

    @property
    def hold(self) -> int | None:
        """Offset from which the tail should be held back, while a repetition is suspected."""
        return self._repeat.hold

    def feed(self, text: str) -> Stall | None:
        """Take text in; the first stall inside it, or None."""
        found = [stall for stall in (self._repeat.feed(text), self._entropy.feed(text)) if stall]
        return min(found, key=lambda stall: stall.position, default=None)

    def reset(self) -> None:
        """Forget everything seen."""
        self._repeat.reset()
        self._entropy.reset()

    def prime(self, text: str) -> None:
        """Begin anew behind this text."""
        self._repeat.prime(text)
        self._entropy.prime(text)


def choose_detector(policy: GuardPolicy) -> Callable[[], Detector]:
    """A function that makes detectors as the policy says."""
    rule = policy.entropy

    def entropy() -> EntropyDetector:
        return EntropyDetector(window=rule.window, min_bits=rule.min_bits, max_drop=rule.max_drop)

    match policy.detector:
        case "entropy":
            return entropy
        case "both":
            return lambda: EitherDetector(RepeatDetector(), entropy())
        case _:
            return RepeatDetector
