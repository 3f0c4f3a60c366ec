"""RelapseDetector: notices at once when a loop that was cut comes back.

After a rollback the client has one or two copies of the unit, and the model may say it once more, from any
point of it, before it goes on. So the fresh text is compared with the unit laid end to end: while its tail lies
in there, the tail is a match. A match is held back, from its first character if the fresh text begins with it,
otherwise from the 20th. A whole unit of it is a stall (the first in a call is only left out), and so is a match that
makes three units together with the copies it follows.
"""

from millgate.guard.detectors import Stall

MIN_CHARS = 40  # a shorter match is not a stall; shorter units are repeated up to it
HOLD_CHARS = MIN_CHARS // 2  # a match of this length is held back, wherever it begins
SLICE = 64  # characters compared at a time; one by one inside a match, to see where it ends
COPIES = 3  # copies in a row that the client never gets
MAX_UNITS = 4  # units remembered: one for each call of the default policy


class RelapseDetector:
    """Watches fresh text for the units of loops that were cut before."""

    def __init__(self) -> None:
        self._units: dict[str, _CyclicUnit] = {}
        self._known: list[str] = []
        self._seen = 0
        self.hold: int | None = None
        """Offset in the fresh text from which the tail should be held back, or None."""

    def learn(self, unit: str) -> None:
        """Remember the unit of a loop that was cut."""
        if unit:
            self._units[unit] = _CyclicUnit(unit)
            self._known = [*self._known, unit][-MAX_UNITS:]
        while len(self._units) > MAX_UNITS:
            del self._units[next(iter(self._units))]

    def knows(self, unit: str) -> bool:
        """Whether a loop of this unit was cut before, begun at any point of it."""
        return bool(unit) and any(len(k) == len(unit) and unit in k + k for k in self._known)

    def stop_watching(self) -> None:
        """Let the units pass; they are still known."""
        self._units.clear()
        self.hold = None

    def restart(self, before: str = "") -> None:
        """Fresh text begins here, behind what the client has."""
        self._seen, self.hold = 0, None
        for cycle in self._units.values():
            cycle.restart(before)

    def feed(self, text: str) -> Stall | None:
        """Take fresh text in; a stall, with no period of its own, when a known unit is back."""
        if not self._units:
            self._seen += len(text)
            return None
        start = 0
        while start < len(text):
            size = 1 if self.hold is not None or not self._seen else SLICE
            stall = self._feed_slice(text[start : start + size])
            if stall:
                return stall
            start += size
        return None

    def _feed_slice(self, text: str) -> Stall | None:
        self._seen += len(text)
        longest = 0
        for cycle in self._units.values():
            fresh = min(cycle.match(text), self._seen)
            if cycle.has_returned(fresh):
                return Stall(self._seen, self._seen - fresh, 0, "a loop came back", cycle.unit)
            longest = max(longest, fresh)
        at_start = longest == self._seen
        if not at_start and longest < HOLD_CHARS:
            self.hold = None
        elif self.hold is None:
            self.hold = 0 if at_start else self._seen
        return None


class _CyclicUnit:
    """A unit laid end to end, and how much of it the text that was matched ends with.

    That much is all there is to remember: the longest end of a longer text is an end of it and what follows.
    """

    def __init__(self, unit: str) -> None:
        self.unit = unit
        times = -(-MIN_CHARS // len(unit))
        self._size = times * len(unit)
        self._repeated = unit * (times * (COPIES + 1))
        self._matched = 0  # characters matched that lie in the cycle ...
        self._phase = 0  # ... and where in the unit they end

    def restart(self, before: str) -> None:
        self._matched = self._phase = 0
        self.match(before[-COPIES * self._size :])

    def match(self, text: str) -> int:
        """Take text in; how many characters of its end lie in the cycle."""
        unit, phase = self.unit, self._phase
        if len(text) == 1 and self._matched and unit[phase] == text:
            self._matched += 1
            self._phase = (phase + 1) % len(unit)
            return self._matched
        known = min(self._matched, COPIES * self._size)
        start = (phase - known) % len(unit)
        matched = self._repeated[start : start + known] + text
        self._matched = _longest_end(matched, self._repeated)
        self._phase = (
            self._repeated.find(matched[len(matched) - self._matched :]) + self._matched
        ) % len(unit)
        return self._matched

    def has_returned(self, fresh: int) -> bool:
        """Whether the unit is back, if `fresh` characters of the match are new."""
        if fresh >= self._size:
            return True
        # the client may have many copies of a short unit
        min_fresh = 1 if len(self.unit) >= MIN_CHARS else HOLD_CHARS
        return self._matched >= COPIES * self._size and fresh >= min_fresh


def _longest_end(text: str, cycle: str) -> int:
    """Length of the longest end of `text` that lies in the cycle, by bisection (shorter ends of an end do too)."""
    low, high = 0, min(len(text), len(cycle))
    while low < high:
        middle = (low + high + 1) // 2
        if text[len(text) - middle :] in cycle:
            low = middle
        else:
            high = middle - 1
    return low
