"""Profile: entropy and repetition along a stream, as the dashboard draws them.

A Profile samples both curves while text flows. When it has too many samples it drops every second one, so an endless
stream needs no more memory than a short one.
"""

from typing import NamedTuple

from millgate.guard.detectors import RepeatDetector
from millgate.text.entropy import SlidingEntropy

SAMPLES = 2048  # most samples kept: more than a screen has columns


class Sample(NamedTuple):
    """One point of the curves: offset, entropy in bits, length of the repetition going on."""

    position: int
    bits: float
    run: int


class Profile:
    """Samples the entropy of the last 64 characters and the repetition along a stream."""

    def __init__(self, *, every: int = 8) -> None:
        self.samples: list[Sample] = []
        self._every = every
        self._entropy = SlidingEntropy(64)
        self._detector = RepeatDetector()
        self._seen = 0

    def feed(self, text: str) -> None:
        """Take text in."""
        for char in text:
            bits = self._entropy.push(char)
            self._detector.feed(char)
            self._seen += 1
            if not self._seen % self._every:
                self.samples.append(Sample(self._seen, bits, self._detector.run))
        while len(self.samples) > SAMPLES:
            del self.samples[::2]
            self._every *= 2
