"""EntropyDetector: the entropy rule of published/stream_failsafe.py as a detector of the guard.

It stalls when the entropy H of the last 64 characters is below 1.5 bits, or 0.3 bits less than 8 characters
before. Entropy measures the alphabet, not repetition: see docs/figures.md for what that misses and cuts.
"""

from headgate.guard.detectors import RepeatDetector, Stall
from headgate.published.stream_failsafe import (
    DROP_THRESHOLD,
    MIN_ENTROPY,
    WARM_UP,
    WINDOW_SIZE,
    EntropyCRFConfig,
    EntropyMonitor,
    K,
)


class EntropyDetector:
    """Stalls when character entropy is low, or falls fast.

    Over a window of 64 characters, from the 16th character on: below 1.5 bits ("absolute"), or 0.3 bits
    less than 8 characters before ("derivative"). It measures the alphabet, not repetition: an option and
    a curve on the plot, not the judge. After a stall it rests for one window.
    """

    def __init__(
        self,
        *,
        window: int = WINDOW_SIZE,
        min_bits: float = MIN_ENTROPY,
        max_drop: float = DROP_THRESHOLD,
        span: int = K,
        warm_up: int = WARM_UP,
    ) -> None:
        self.window, self.min_bits, self.max_drop, self.span = window, min_bits, max_drop, span
        self._monitor = EntropyMonitor(EntropyCRFConfig(window, min_bits, max_drop, span, warm_up))
        self.warm_up = self._monitor.warm_up

    def reset(self) -> None:
        """Forget everything seen."""
        self._monitor.reset()

    def prime(self, text: str) -> None:
        """Begin anew behind this text, after which the window must fill with other characters."""
        self._monitor.reset(len(text))

    @property
    def bits(self) -> float:
        """Entropy of the window now."""
        return self._monitor.bits

    def feed(self, text: str) -> Stall | None:
        """Take text in; the first stall inside it, or None."""
        stall = None
        for char in text:
            found = self._monitor.push(char)
            if found and stall is None:
                stall = Stall(found.position, found.boundary, 0, found.reason)
        return stall


class EitherDetector:
    """Both detectors: the earlier stall counts. Text is held back as the RepeatDetector says."""

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
