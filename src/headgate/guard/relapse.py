"""Echo: notices at once when a loop that was cut comes back.

After a rollback the client has one or two copies of the unit, and the model may say it once more, from any
point of it, before it goes on. So the fresh text is compared with the unit itself: while its tail lies
inside the repeated unit it is an echo. An echo is held back, from its first character where the text opens
with it, else from the 20th. A whole unit of it is a stall (the first in a call is only left out), and so is
an echo that would make three units together with the copies it runs on from.
"""

from headgate.guard.detectors import Stall

LEAST = 40  # characters of echo below which nothing is said; shorter units are repeated up to it
FAINT = LEAST // 2  # characters of echo from which on it is held back, wherever it begins
SLICE = 64  # characters heard at a time; one by one while there is an echo, to see where it ends
COPIES = 3  # copies in a row that the client never gets
KEPT = 4  # units remembered: one for each call of the default policy


class Echo:
    """Watches fresh text for the units of loops that were cut before."""

    def __init__(self) -> None:
        self._rings: dict[str, _Ring] = {}
        self._seen = 0
        self.hold: int | None = None
        """Offset in the fresh text from which the tail should be held back, or None."""

    def learn(self, unit: str) -> None:
        """Remember the unit of a loop that was cut."""
        if unit:
            self._rings[unit] = _Ring(unit)
        while len(self._rings) > KEPT:
            del self._rings[next(iter(self._rings))]

    def restart(self, before: str = "") -> None:
        """Fresh text begins here, behind what the client has."""
        self._seen, self.hold = 0, None
        for ring in self._rings.values():
            ring.restart(before)

    def feed(self, text: str) -> Stall | None:
        """Take fresh text in; a stall, with no period of its own, when a known unit is back."""
        if not self._rings:
            self._seen += len(text)
            return None
        start = 0
        while start < len(text):
            size = 1 if self.hold is not None or not self._seen else SLICE
            stall = self._hear(text[start : start + size])
            if stall:
                return stall
            start += size
        return None

    def _hear(self, text: str) -> Stall | None:
        self._seen += len(text)
        loudest = 0
        for ring in self._rings.values():
            fresh = min(ring.hear(text), self._seen)
            if ring.back(fresh):
                return Stall(self._seen, self._seen - fresh, 0, "a loop came back", ring.unit)
            loudest = max(loudest, fresh)
        opens = loudest == self._seen
        if not opens and loudest < FAINT:
            self.hold = None
        elif self.hold is None:
            self.hold = 0 if opens else self._seen
        return None


class _Ring:
    """A unit laid end to end, and how much of it the text that was heard ends with.

    That much is all there is to remember: the longest end of a longer text is an end of it and what follows.
    """

    def __init__(self, unit: str) -> None:
        self.unit = unit
        times = -(-LEAST // len(unit))
        self._size = times * len(unit)
        self._laid = unit * (times * (COPIES + 1))
        self._echo = 0  # characters heard that lie in the ring ...
        self._phase = 0  # ... and where in the unit they end

    def restart(self, before: str) -> None:
        self._echo = self._phase = 0
        self.hear(before[-COPIES * self._size :])

    def hear(self, text: str) -> int:
        """Take text in; how many characters of its end lie in the ring."""
        unit, phase = self.unit, self._phase
        if len(text) == 1 and self._echo and unit[phase] == text:
            self._echo += 1
            self._phase = (phase + 1) % len(unit)
            return self._echo
        known = min(self._echo, COPIES * self._size)
        start = (phase - known) % len(unit)
        heard = self._laid[start : start + known] + text
        self._echo = _tail(heard, self._laid)
        self._phase = (self._laid.find(heard[len(heard) - self._echo :]) + self._echo) % len(unit)
        return self._echo

    def back(self, fresh: int) -> bool:
        """Whether the unit is back, when so many characters of the echo are fresh."""
        if fresh >= self._size:
            return True
        least = (
            1 if len(self.unit) >= LEAST else FAINT
        )  # the client may have many copies of a short unit
        return self._echo >= COPIES * self._size and fresh >= least


def _tail(text: str, ring: str) -> int:
    """Length of the longest end of `text` that lies in the ring, by bisection (shorter ends of an end do too)."""
    low, high = 0, min(len(text), len(ring))
    while low < high:
        middle = (low + high + 1) // 2
        if text[len(text) - middle :] in ring:
            low = middle
        else:
            high = middle - 1
    return low
