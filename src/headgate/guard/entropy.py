"""EntropyDetector: the published rule, over a sliding window of character entropy.

It stalls when the entropy H of the last 64 characters is below 1.5 bits, or 0.3 bits less than 8 characters
before. Entropy measures the alphabet, not repetition: see docs/figures.md for what that misses and cuts.
"""

from collections import deque

from headgate.errors import InputError
from headgate.guard.detectors import RepeatDetector, Stall
from headgate.text.entropy import SlidingEntropy


class EntropyDetector:
    """The published rule: stall when character entropy is low, or falls fast.

    Over a window of 64 characters, from the 16th character on: below 1.5 bits ("absolute"), or 0.3 bits
    less than 8 characters before ("derivative"). It measures the alphabet, not repetition: an option and
    a curve on the plot, not the judge. After a stall it rests for one window.
    """

    def __init__(
        self,
        *,
        window: int = 64,
        min_bits: float = 1.5,
        max_drop: float = 0.3,
        span: int = 8,
        warm_up: int = 16,
    ) -> None:
        if window < 2 or span < 1 or warm_up < 1:
            raise InputError(
                f"window {window}, span {span}, warm_up {warm_up}: a window needs 2 characters, "
                "the others at least 1"
            )
        self.window, self.min_bits, self.max_drop = window, min_bits, max_drop
        self.span, self.warm_up = span, min(window, warm_up)
        self.reset()

    def reset(self) -> None:
        """Forget everything seen."""
        self._entropy = SlidingEntropy(self.window)
        self._past: deque[float] = deque(maxlen=self.span + 1)
        self._seen = 0
        self._rest = self.warm_up

    def prime(self, text: str) -> None:
        """Begin anew behind this text, after which the window must fill with other characters."""
        self.reset()
        self._seen = len(text)
        self._rest = self._seen + self.warm_up

    @property
    def bits(self) -> float:
        """Entropy of the window now."""
        return self._entropy.bits

    def feed(self, text: str) -> Stall | None:
        """Take text in; the first stall inside it, or None."""
        stall = None
        for char in text:
            found = self._push(char)
            stall = stall or found
        return stall

    def _push(self, char: str) -> Stall | None:
        bits = self._entropy.push(char)
        past = self._past
        past.append(bits)
        self._seen += 1
        if self._seen < self._rest:
            return None
        if bits < self.min_bits:
            return self._stall(f"absolute: {bits:.2f} bits", self.window)
        if len(past) > self.span and past[0] - bits >= self.max_drop:
            return self._stall(f"derivative: {bits - past[0]:+.2f} bits", self.span)
        return None

    def _stall(self, reason: str, reach: int) -> Stall:
        self._rest = self._seen + self.window
        return Stall(self._seen, max(0, self._seen - reach), 0, reason)


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
