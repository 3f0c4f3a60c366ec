"""Counting: warns of loops that count ("Item 41 ... Item 42 ...").

The text is folded, every run of digits to one "0", and the folded text is watched by a RepeatDetector
with its own, longer lengths. Data tables fold to repetitions too, so a run counts as a loop only when
each column of numbers stands still or steps evenly. Long good lists count as well: a reason to warn,
not to cut. It works on blocks at absolute offsets, so chunking cannot matter, and it rests if no digit comes.
"""

import re
from itertools import pairwise

from millgate.guard.detectors import RepeatDetector, RepeatPolicy, Stall

BLOCK = 64  # characters folded at a time
# Characters without a digit after which the detector sleeps. Chosen, not measured: prose without
# numbers should cost nothing.
QUIET = 1024
# Last copies whose numbers must step evenly. Chosen, not measured: five copies give four steps
# to compare.
COPIES = 5
# Share of equal steps that makes a column even. Chosen, not measured: a model that counts may skip a number.
EVEN = 0.5
LONGEST = 20  # digits of a number that are looked at
KEPT = 4096  # numbers remembered

_digits = re.compile(r"\d+")
_digit = re.compile(r"\d")


class CountPolicy(RepeatPolicy):
    """How long a counting repetition may go on, in folded characters."""

    def kind(self, unit: str) -> str:
        """none: nothing counts; words: at least 3 letters; bare: numbers and separators."""
        if "0" not in unit:
            return "none"
        return "words" if sum(map(str.isalpha, unit)) >= 3 else "bare"

    def min_suspect(self, period: int) -> int:
        """The least any counting run must repeat."""
        return int(max(60, 1.5 * period))

    def suspect(self, period: int, kind: str) -> int:
        """The same, and never for a unit without numbers."""
        return 1 << 40 if kind == "none" else self.min_suspect(period)

    def stall(self, period: int, kind: str) -> int:
        """Folded characters after which to warn: good lists rarely count on in words for so long."""
        return max(1250 if kind == "words" else 400, 6 * period)


class CountingDetector:
    """Finds text that repeats but for numbers which step evenly. A stall has no exact onset: 0 stands there."""

    def __init__(self, policy: CountPolicy | None = None) -> None:
        self._folded = RepeatDetector(policy or CountPolicy())
        self.reset()

    def reset(self) -> None:
        """Forget everything seen."""
        self._folded.reset()
        self._pending = ""
        self._seen = 0
        self._quiet = QUIET + 1
        self._open = False  # whether the last block ended inside a number
        self._numbers: list[str] = []

    def feed(self, text: str) -> Stall | None:
        """Take text in; the first counting loop found inside it, or None."""
        waiting = self._pending + text
        whole = len(waiting) - len(waiting) % BLOCK
        self._pending = waiting[whole:]
        stall = None
        for start in range(0, whole, BLOCK):
            found = self._feed_block(waiting[start : start + BLOCK])
            stall = stall or found
        return stall

    def _feed_block(self, block: str) -> Stall | None:
        self._seen += BLOCK
        self._quiet = 0 if _digit.search(block) else self._quiet + BLOCK
        if self._quiet > QUIET:  # sleep
            if self._numbers:
                self._folded.reset()
                self._numbers.clear()
            self._open = False
            return None
        folded = block if self._quiet else self._fold(block)
        self._open = block[-1].isdecimal()
        stall = self._folded.feed(folded)
        if stall is None:
            return None
        if not self._steps_evenly(stall.unit.count("0")):
            self._folded.rearm(2 * stall.period + BLOCK)
            return None
        return Stall(self._seen, 0, stall.period, f"counting: {stall.reason}", stall.unit)

    def _fold(self, block: str) -> str:
        """The block with every number as one "0"; its numbers join the list."""
        found = _digits.findall(block)
        folded = _digits.sub("0", block)
        if self._open and block[0].isdecimal():  # the first number began in the block before
            self._numbers[-1] = (self._numbers[-1] + found[0])[:LONGEST]
            del found[0]
            folded = folded[1:]
        self._numbers += [number[:LONGEST] for number in found]
        if len(self._numbers) > KEPT:
            del self._numbers[: KEPT // 2]
        return folded

    def _steps_evenly(self, columns: int) -> bool:
        """Whether each column of the last copies is constant or steps evenly; the last number may be unfinished."""
        size = columns * COPIES
        numbers = [int(number) for number in self._numbers[-size - 1 : -1]]
        if not size or len(numbers) < size:
            return False
        return all(_is_steady(numbers[column::columns]) for column in range(columns))


def _is_steady(column: list[int]) -> bool:
    steps = [after - before for before, after in pairwise(column)]
    return max(map(steps.count, steps)) >= EVEN * len(steps)
