"""EntropyDetector: the entropy rule of published/stream_failsafe.py as a detector of the guard.

It stalls when the entropy H of the last 64 characters is below 1.5 bits, or 0.3 bits less than 8 characters
before. Entropy measures the alphabet, not repetition: see docs/figures.md for what that misses and cuts. It tells when
a loop is on, but hardly where it began: the published rule slices one window or 8 characters back, into the loop or
into good text before it. So the onset is that of the exact repetition the text ends in, as RepeatDetector has it, if
there is one.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from millgate.guard.detectors import (
    HISTORY,
    TRIES,
    Detector,
    RepeatDetector,
    Stall,
    repeats,
    run_start,
    shortest_unit,
)
from millgate.guard.policy import GuardPolicy
from millgate.published.stream_failsafe import (
    DROP_THRESHOLD,
    MIN_ENTROPY,
    WARM_UP,
    WINDOW_SIZE,
    Collapse,
    EntropyMonitor,
    K,
)

NEEDLE = 8  # characters at the end of a text whose earlier copy tells the period
LONGEST_PERIOD = (
    256  # over which entropy may fall; RepeatDetector looks as far for its short periods
)


class EntropyDetector:
    """Stalls when character entropy is low, or falls fast.

    Over a window of 64 characters, from the 16th character on: below 1.5 bits ("absolute"), or 0.3 bits
    less than 8 characters before ("derivative"). It measures the alphabet, not repetition: an option and
    a curve on the plot, not the judge. After a stall it rests for one window. The onset of a stall is that of the
    exact repetition the text ends in; without one, where the published rule slices, and the period is then 0.
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
        self._monitor = EntropyMonitor(window, min_bits, max_drop, k=span, warm_up=warm_up)
        self.warm_up = self._monitor.warm_up
        # the last text seen, and the offset of its first character
        self._recent, self._start = "", 0

    def reset(self) -> None:
        """Forget everything seen."""
        self.prime("")

    def prime(self, text: str) -> None:
        """Begin anew behind this text, after which the window must fill with other characters."""
        self._monitor.reset(len(text))
        self._recent, self._start = text, 0

    @property
    def bits(self) -> float:
        """Entropy of the window now."""
        return self._monitor.bits

    def feed(self, text: str) -> Stall | None:
        """Take text in; the first stall inside it, or None."""
        if len(self._recent) > 2 * HISTORY:
            self._start += len(self._recent) - HISTORY
            self._recent = self._recent[-HISTORY:]
        self._recent += text
        stall = None
        for char in text:
            found = self._monitor.push(char)
            if found and stall is None:
                stall = self._stall(found)
        return stall

    def _stall(self, found: Collapse) -> Stall:
        end = found.position - self._start
        run = find_trailing_run(self._recent, end)
        if run is None:
            return Stall(found.position, found.boundary, 0, found.reason)
        onset, period = run
        unit = self._recent[end - period : end]
        return Stall(found.position, self._start + onset, period, found.reason, unit)


def find_trailing_run(text: str, end: int) -> tuple[int, int] | None:
    """Where the exact repetition begins in which the text up to `end` ends, and its period; None if it ends in none.

    It must have two whole copies; a unit under eight characters must go on for eight beyond the first.
    """
    needle = text[end - NEEDLE : end] if end >= NEEDLE else ""
    floor, found = max(0, end - LONGEST_PERIOD - NEEDLE), end - NEEDLE
    for _ in range(TRIES * NEEDLE if needle else 0):
        found = text.rfind(needle, floor, found + NEEDLE - 1)
        if found < 0:
            return None
        period = end - NEEDLE - found
        if repeats(text, end, period, max(NEEDLE, period)):
            period = shortest_unit(text[end - period : end])
            return run_start(text, end - NEEDLE, period, max(0, end - HISTORY)), period
    return None


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

    def rearm(self, chars: int) -> None:
        """After a stall: see RepeatDetector."""
        self._repeat.rearm(chars)

    def reset(self) -> None:
        """Forget everything seen."""
        self._repeat.reset()
        self._entropy.reset()

    def prime(self, text: str) -> None:
        """Begin anew behind this text."""
        self._repeat.prime(text)
        self._entropy.prime(text)


def choose_detector(policy: GuardPolicy) -> Callable[[], Detector]:
    """A function that makes the detector that the policy names, one for each channel."""
    entropy = partial(EntropyDetector, **asdict(policy.entropy))
    match policy.detector:
        case "entropy":
            return entropy
        case "both":
            return lambda: EitherDetector(RepeatDetector(), entropy())
        case _:
            return RepeatDetector
