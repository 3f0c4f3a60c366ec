"""Echo: notices at once when a loop that was cut comes back.

After a rollback the client has one or two copies of the unit, and the model may say it once more, from any
point of it, before it goes on. So the fresh text is compared with the unit itself: while its tail lies
inside the repeated unit it is an echo. An echo is held back, from its first character where the text opens
with it, else from the 20th; a whole unit of it is a stall (the first in a call is only left out).
"""

from headgate.guard.detectors import Stall

LEAST = 40  # characters of echo below which nothing is said; shorter units are repeated up to it
SLICE = 64  # characters heard at a time; one by one while there is an echo, to see where it ends


class Echo:
    """Watches fresh text for the units of loops that were cut before."""

    def __init__(self) -> None:
        self._rings: dict[
            str, tuple[str, int]
        ] = {}  # unit -> (the unit laid end to end, its length)
        self._seen = 0
        self._echo = ""
        self.hold: int | None = None
        """Offset in the fresh text from which the tail should be held back, or None."""

    def learn(self, unit: str) -> None:
        """Remember the unit of a loop that was cut; the last four are kept."""
        if not unit:
            return
        size = len(unit) * -(-LEAST // len(unit))
        self._rings[unit] = (unit * (2 * size // len(unit) + 1), size)
        while len(self._rings) > 4:
            del self._rings[next(iter(self._rings))]

    def restart(self) -> None:
        """Fresh text begins here."""
        self._seen, self._echo, self.hold = 0, "", None

    def feed(self, text: str) -> Stall | None:
        """Take fresh text in; a stall, with no period of its own, when it holds a whole copy of a known unit."""
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
        heard = self._echo + text
        for unit, (ring, size) in self._rings.items():
            echo = _tail(heard[-len(ring) :], ring)
            if len(echo) >= size:
                return Stall(self._seen, self._seen - len(echo), 0, "a loop came back", unit)
            opens = len(echo) == self._seen
            if opens or len(echo) >= LEAST // 2:
                self._echo = echo
                if self.hold is None:
                    self.hold = 0 if opens else self._seen
                return None
        longest = max(len(ring) for ring, _ in self._rings.values())
        self._echo, self.hold = heard[-longest:], None
        return None


def _tail(text: str, ring: str) -> str:
    """The longest end of `text` that lies in the ring, by bisection (shorter ends of an end lie there too)."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if text[len(text) - middle :] in ring:
            low = middle
        else:
            high = middle - 1
    return text[len(text) - low :] if low else ""
