"""Channels: what a model streams, kept apart: content, reasoning, tool calls.

A Piece is its text, with the channel it came on, so a list of content pieces joins to the answer.
Each Channel has its own detector and its own held-back tail. While its detector suspects a repetition,
text past the point of suspicion waits; it goes out when the suspicion passes and is cut when it does not.
A channel that is delivered whole (tool calls and structured output, if asked for) waits until it is complete.
After a rollback a RelapseDetector watches too, for the units of the loops that were cut.
"""

from dataclasses import replace
from typing import Any

from millgate.errors import InputError
from millgate.guard.detectors import HISTORY, Detector, PrimedDetector, Stall
from millgate.guard.resume import first_boundary, last_boundary

CONTENT = "content"
REASONING = "reasoning"
TOOL = "tool"
EVENT = "event"  # no text: roles, pings, usage, finish reasons
MAX_COPIES = 2.5  # within which a cut may move on to a boundary: the client never gets a third


class Piece(str):
    """A piece of a stream: its text, the channel it belongs to, the call it is part of, the event it came in."""

    __slots__ = ("call", "channel", "raw")

    channel: str
    call: int
    raw: Any

    def __new__(cls, channel: str, text: str = "", *, call: int = 0, raw: object = None) -> "Piece":
        """A piece of text on a channel; `call` counts tool calls, `raw` is what the provider sent."""
        piece = super().__new__(cls, text)
        piece.channel, piece.call, piece.raw = channel, call, raw
        return piece

    @property
    def text(self) -> str:
        """The text alone."""
        return str(self)

    def __repr__(self) -> str:
        return f"Piece({self.channel!r}, {str(self)!r})"


def as_piece(given: object) -> Piece:
    """What a caller's stream yields, as a piece; a bare text is content."""
    if isinstance(given, Piece):
        return given
    if isinstance(given, str):
        return Piece(CONTENT, given)
    raise InputError(
        f"the stream yields {type(given).__name__}, not str",
        hint="yield the text of each chunk (bytes: decode them), or a Piece",
    )


class Channel:
    """One channel on its way to the client: what was sent, what waits, and who watches."""

    def __init__(
        self,
        name: str,
        detector: Detector,
        *,
        hold_back: bool = True,
        whole: bool = False,
        max_hold: int = 16_384,
        call: int = 0,
    ) -> None:
        self.name, self.call, self.whole = name, call, whole
        self.detector: Detector | None = detector
        """Who watches; None: what comes passes unwatched."""
        self.relapse = RelapseDetector()
        self.sent = 0
        """Characters the client has."""
        self.begun = False
        """Whether the client has any piece of it, even one without text."""
        self.queue: list[Piece] = []
        """The pieces that wait ..."""
        self.held = 0
        """... and their characters."""
        self.elided = 0
        """Characters left out of the current call, since the client has them already."""
        self._hold_back, self._max_hold = hold_back, max_hold
        self._call_start = 0  # offset at which the current call began
        self._base = 0  # offset of the detector's first character
        self._waived_hold: int | None = None  # a suspicion whose hold went on for too long
        self._tail: list[str] = []  # the last texts sent, for the detector ...
        self._tail_chars = 0  # ... after a rollback, and their characters

    @property
    def waiting(self) -> str:
        """The text that waits."""
        return "".join(self.queue)

    @property
    def tail(self) -> str:
        """The last text sent."""
        return "".join(self._tail)

    def feed(self, piece: Piece) -> Stall | None:
        """Take a piece in; a stall in offsets of the whole channel, or None."""
        text = str(piece)
        self.queue.append(piece)
        self.held += len(text)
        if self.detector is None:
            return None
        stall = self.detector.feed(text)
        if stall is not None:
            relapsing, base = self.relapse.hold is not None, self._base
        elif self.relapse.units:
            stall, relapsing, base = self.relapse.feed(text), True, self._call_start
        if stall is None:
            return None
        stall = _shift(stall, base)
        if relapsing and self._hold_back and not self.elided:
            return self._elide(stall.position - self.sent)
        return stall

    def _elide(self, chars: int) -> Stall | None:
        """Leave out a copy that the client already has, once in a call; watch what follows it."""
        rest = self.waiting[chars:]
        self.queue = [piece for piece in self.queue if not piece]
        self.held, self.elided, self._call_start = 0, chars, self.sent
        self._watch()
        return self.feed(Piece(self.name, rest, call=self.call)) if rest else None

    def ready(self) -> list[Piece]:
        """What may go out now."""
        if self.whole:
            return []
        if getattr(self.detector, "hold", None) is None and self.relapse.hold is None:
            return self.release()  # nearly always: nothing is suspected
        hold = self._hold() or 0
        if not self._hold_back or hold == self._waived_hold:
            return self.release()
        if self.held > self._max_hold:
            return self.waive()
        free = self.waiting[: max(0, hold - self.sent)]
        return self.send(last_boundary(free) or len(free), split=False)

    def _hold(self) -> int | None:
        """Offset from which text waits, or None: the earlier of what the two detectors say."""
        suspected, known = getattr(self.detector, "hold", None), self.relapse.hold
        if suspected is not None:
            suspected += self._base
        if known is None:
            return suspected
        known += self._call_start
        return known if suspected is None else min(known, suspected)

    def waive(self) -> list[Piece]:
        """Send what waits, and hold no more for the present suspicion."""
        self._waived_hold = self._hold()
        return self.release()

    def release(self) -> list[Piece]:
        """Send everything that waits."""
        out = self.queue
        if out:
            text = "".join(out)
            self.queue, self.held, self.begun = [], 0, True
            self.sent += len(text)
            self._tail.append(text)
            self._tail_chars += len(text)
            if self._tail_chars > 2 * HISTORY:
                self._tail = [self.tail[-HISTORY:]]
                self._tail_chars = HISTORY
        return out

    def send(self, chars: int, *, split: bool = True) -> list[Piece]:
        """Send the next `chars` characters that wait; a piece may be cut in two.

        Without `split`, a piece that came in an event waits whole: if the suspicion passes, the event goes out as it
        came.
        """
        queue, at = self.queue, 0
        while at < len(queue) and len(queue[at]) <= chars:
            chars -= len(queue[at])
            at += 1
        out, rest = queue[:at], queue[at:]
        if chars and rest and (split or rest[0].raw is None):
            text = str(rest[0])
            out.append(Piece(self.name, text[:chars], call=rest[0].call))
            rest[0] = Piece(self.name, text[chars:], call=rest[0].call)
        self.queue = out
        self.release()
        self.queue, self.held = rest, sum(map(len, rest))
        return out

    def first_copy_chars(self, stall: Stall, reach: int) -> int:
        """How many waiting characters end the first copy of a loop, moved on to a boundary at most `reach` away."""
        first = max(self.sent, stall.onset + stall.period)
        waiting = self.waiting
        start = min(first - self.sent, len(waiting))
        allowed = stall.onset + int(MAX_COPIES * stall.period) - first
        before = self.tail + waiting[:start]
        if not stall.period or allowed <= 0 or before[-1:].isspace():
            return start
        return start + first_boundary(waiting[start:][: min(allowed, reach)])

    def let_pass(self, stall: Stall, chars: int) -> Stall | None:
        """Let the repetition of a stall go on, up to this length of its run; the next stall, if any."""
        if not stall.period:
            self.relapse.stop_watching()
        elif rearm := getattr(self.detector, "rearm", None):
            rearm(chars - (stall.position - stall.onset))
        further = self.detector.feed("") if self.detector else None  # what came behind the stall
        self._waived_hold = self._hold()
        return _shift(further, self._base) if further else None

    def stop_watching(self) -> list[Piece]:
        """Send everything that waits; what follows passes unwatched."""
        self.detector, self.whole, self.relapse = None, False, RelapseDetector()
        return self.release()

    def rewind(self) -> None:
        """After a rollback: watch on from what the client has, so that a loop cannot begin again unseen."""
        self.queue, self.held = [], 0
        self._waived_hold, self._call_start, self.elided = None, self.sent, 0
        self._watch()

    def _watch(self) -> None:
        tail = self.tail
        self.relapse.restart(tail)
        self._base = self.sent
        if isinstance(self.detector, PrimedDetector):
            self.detector.prime(tail)
            self._base -= self._tail_chars
        elif self.detector is not None:
            self.detector.reset()


def _shift(stall: Stall, base: int) -> Stall:
    """The same stall in offsets that begin `base` characters earlier."""
    return replace(stall, position=stall.position + base, onset=stall.onset + base)


# After a rollback the client has one or two copies of the unit, and the model may say it once more, from any
# point of it, before it goes on. So the fresh text is compared with the unit laid end to end: while its tail lies
# in there, the tail is a match. A match is held back, from its first character if the fresh text begins with it,
# otherwise from the 20th. A whole unit of it is a stall (the first in a call is only left out), and so is a match that
# makes three units together with the copies it follows.

MIN_CHARS = 40  # a shorter match is not a stall; shorter units are repeated up to it
HOLD_CHARS = MIN_CHARS // 2  # a match of this length is held back, wherever it begins
SLICE = 64  # characters compared at a time; one by one inside a match, to see where it ends
COPIES = 3  # copies in a row that the client never gets
MAX_UNITS = 4  # units remembered: one for each call of the default policy


class RelapseDetector:
    """Watches fresh text for the units of loops that were cut before: notices at once when one comes back."""

    def __init__(self) -> None:
        self.units: dict[str, _CyclicUnit] = {}
        """Those that it watches for."""
        self._known: list[str] = []
        self._seen = 0
        self.hold: int | None = None
        """Offset in the fresh text from which the tail should be held back, or None."""

    def learn(self, unit: str) -> None:
        """Remember the unit of a loop that was cut."""
        if unit:
            self.units[unit] = _CyclicUnit(unit)
            self._known = [*self._known, unit][-MAX_UNITS:]
        while len(self.units) > MAX_UNITS:
            del self.units[next(iter(self.units))]

    def knows(self, unit: str) -> bool:
        """Whether a loop of this unit was cut before, begun at any point of it."""
        return bool(unit) and any(len(k) == len(unit) and unit in k + k for k in self._known)

    def stop_watching(self) -> None:
        """Let the units pass; they are still known."""
        self.units.clear()
        self.hold = None

    def restart(self, before: str = "") -> None:
        """Fresh text begins here, behind what the client has."""
        self._seen, self.hold = 0, None
        for cycle in self.units.values():
            cycle.restart(before)

    def feed(self, text: str) -> Stall | None:
        """Take fresh text in; a stall, with no period of its own, when a known unit is back."""
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
        for cycle in self.units.values():
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
        self._size = -(-MIN_CHARS // len(unit)) * len(unit)
        self._repeated = unit * ((COPIES + 1) * self._size // len(unit))
        self.restart("")

    def restart(self, before: str) -> None:
        self._matched = 0  # characters matched that lie in the cycle ...
        self._phase = 0  # ... and where in the unit they end
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
        # the longest end that lies in the cycle, by bisection: shorter ends of an end do too
        low, high = 0, min(len(matched), len(self._repeated))
        while low < high:
            middle = (low + high + 1) // 2
            if matched[len(matched) - middle :] in self._repeated:
                low = middle
            else:
                high = middle - 1
        self._matched = low
        self._phase = (self._repeated.find(matched[len(matched) - low :]) + low) % len(unit)
        return low

    def has_returned(self, fresh: int) -> bool:
        """Whether the unit is back, if `fresh` characters of the match are new."""
        # the client may have many copies of a short unit
        min_fresh = 1 if len(self.unit) >= MIN_CHARS else HOLD_CHARS
        return fresh >= self._size or (self._matched >= COPIES * self._size and fresh >= min_fresh)
