"""RepeatDetector: text in, Stall out. Bounded memory, any chunking.

It looks for exact contiguous repetition. Every 32 characters it searches the last 16 in
what came before; the distance to a hit is a candidate period p. One comparison tells whether the tail really
repeats, a walk back finds its exact start, and from then on the run is followed until it breaks or is long enough
for a verdict (see unit_kinds.py). All these looks are taken at absolute offsets, so the verdict cannot depend on how
the text was cut up. A glance at the end of what was fed holds tiny units back earlier; it has no part in the verdict.

What a reader does not see is left out before the comparison (invisible.py), so offsets here are those of the visible
text. Stalls and holds are told in offsets of the text as it came.
"""

from dataclasses import dataclass
from typing import Protocol, TypeGuard, runtime_checkable

from millgate.guard.invisible import VisibleText
from millgate.guard.unit_kinds import PADDING, RepeatPolicy


@dataclass(frozen=True, slots=True)
class Stall:
    """The verdict of a detector: where it fell, where the repetition begins, its period (0: unknown), and why."""

    position: int
    onset: int
    period: int
    reason: str
    unit: str = ""

    @property
    def repeats(self) -> float:
        """Copies of the unit between onset and position; 0 if the period is unknown."""
        return (self.position - self.onset) / self.period if self.period else 0.0


@runtime_checkable
class Detector(Protocol):
    """Text in, the first stall inside it out. No I/O."""

    def feed(self, text: str) -> Stall | None: ...  # noqa: D102
    def reset(self) -> None: ...  # noqa: D102


@runtime_checkable
class HoldingDetector(Detector, Protocol):
    """A detector that suspects a repetition before it is sure of it.

    `hold` is the offset from which the stream should hold its text back; None while there is no suspicion.
    """

    @property
    def hold(self) -> int | None: ...  # noqa: D102


def holds_text_back(detector: Detector) -> TypeGuard[HoldingDetector]:
    """Whether a detector is a HoldingDetector. Every stream asks, and isinstance takes 30 µs in Python 3.11."""
    return hasattr(detector, "hold")


@runtime_checkable
class PrimedDetector(Detector, Protocol):
    """A detector that can begin behind a text, as after a rollback; others begin with nothing."""

    def prime(self, text: str) -> None: ...  # noqa: D102


@runtime_checkable
class PatientDetector(Detector, Protocol):
    """A detector that can be told to let the run that stalled go on for a while."""

    def rearm(self, chars: int) -> None: ...  # noqa: D102


class LengthPolicy(Protocol):
    """How long which kind of unit may repeat; RepeatPolicy is the default."""

    def kind(self, unit: str) -> str: ...  # noqa: D102
    def min_suspect(self, period: int) -> int: ...  # noqa: D102
    def suspect(self, period: int, kind: str) -> int: ...  # noqa: D102
    def stall(self, period: int, kind: str) -> int: ...  # noqa: D102


# Short periods are looked for often with a short needle, longer ones rarely with a long needle: a run must repeat
# by more than one period before it matters, so a long period can wait, and a long needle has few hits.
#   every 32 characters   the last 16, for periods up to 256
#   every 64              the last 64, for 257 to 512
#   every 128 / 256       the same, to 1 024 / to 4 096
STRIDE = 32
# Periods below 8 are glanced for at the end of what was fed: every 16 characters whether the last 3 recur among the 9
# before; if they do, there and 8 later whether the last 8 do. So a run is seen before it has over 24 characters.
GLANCE, TINY = 16, 8
FILLED = frozenset(TINY * char for char in PADDING)  # inside a ruler or a blank: not worth a look
CONTEXT = 48  # characters before the fresh text in which such a run may begin
LONGEST = 4096  # longest period looked for
CLOSE = 16  # the near stride after a hit that may become a run ...
CLOSER = 8  # ... and after one whose last 32 characters repeat already
LASTING = 40  # least period that is tried again if it had not lasted long enough
TRIES = 2  # candidates per look; the nearest hit is nearly always the period
DEEP = (48, 64, 84, 112, 148, 196, 256)  # needles for units that repeat parts of themselves
PULSE = 12  # characters of a followed run that are compared at a time: the run is held back, so it should end soon
# Least characters before a second verdict on a loop that was already cut once: two strides.
# Chosen, not measured.
MORE = 64
# A needle whose last 8 characters recur just before is a stutter ("-----", "ababab"): it nearly matches
# almost anywhere, which makes the longest search slow, so that search is then made 4 times more rarely.
STUTTER, AMONG, RARELY = 8, 24, 4
HISTORY = (
    3 * LONGEST
)  # characters remembered: two copies of the longest unit, and slack for the walk back
KEPT = 2 * HISTORY  # characters kept before the oldest are forgotten
ALIGNED = 1024  # what is forgotten is a multiple of every stride, so that indexes are aligned like offsets
BLOCK = 64  # characters compared at a time
DEFAULT = RepeatPolicy()
# Its `min_suspect` by period: most looks ask for it. Without this table `millgate eval guard` takes 6 % more CPU a
# character, and 3 % more with a table for each detector.
DEFAULT_MIN_SUSPECT: dict[int, int] = {}


class RepeatDetector:
    """Finds exact contiguous repetition in a stream; one stall per run, onset and period exact.

    `feed` returns the first stall that falls inside the text it was given. What stands behind it is looked at with
    the next `feed`, which may bring no text. After a stall the run is followed in silence until it breaks.
    """

    def __init__(self, policy: LengthPolicy | None = None) -> None:
        self.policy: LengthPolicy = policy or DEFAULT
        self._min_suspect = DEFAULT_MIN_SUSPECT if policy is None else {}
        self.reset()

    def reset(self) -> None:
        """Forget everything seen."""
        self._fresh = ""  # fed, but not looked at
        self._search_chars = STRIDE  # fresh characters from which a search is due ...
        self._due_chars = GLANCE  # ... and from which a glance is due
        self._visible = VisibleText()
        self._text = ""  # what is remembered ...
        self._base = 0  # ... and the offset of its first character
        self._next = STRIDE  # offset of the next look
        self._period = 0  # of the run that is followed; 0 while none is
        self._candidate = 0  # a period that has not lasted long enough yet
        self._onset = self._at = self._trigger = 0
        self._reported = False
        self._kind = ""
        self.hold: int | None = None
        """Offset from which the tail should be held back, while a repetition is suspected."""

    @property
    def run(self) -> int:
        """Length of the repetition that is followed now, first copy included; 0 while none is."""
        return self._at - self._onset if self._period else 0

    def feed(self, text: str) -> Stall | None:
        """Take text in; the first stall inside it, or None."""
        self._fresh = fresh = self._fresh + text
        return None if len(fresh) < self._due_chars else self._advance(fresh)

    def prime(self, text: str) -> None:
        """Begin anew behind this text; a loop already in it stalls again when it grows by one more copy."""
        self.reset()
        stall = further = self.feed(text)
        while further:
            further = self.feed("")
        if stall and self._period:
            self.rearm(max(self._period, MORE))

    def rearm(self, chars: int) -> None:
        """After a stall: give another verdict on the same run when it has grown by `chars` characters."""
        self._trigger = self._at + chars
        self._reported = False

    def _advance(self, fresh: str) -> Stall | None:
        """Glance at the end of the text, or take the looks that are due."""
        size = len(fresh)
        if size < self._search_chars:
            if size < GLANCE or fresh[-3:] in fresh[-10:-1]:
                self._glance(self._text[-CONTEXT:] + fresh, size)
            else:  # nearly all glances end here
                self._due_chars = self._search_chars
            return None
        text, self._text, self._fresh = self._text, "", ""
        if "  " in fresh or not fresh.isascii() or (fresh and fresh[0] == " " == text[-1:]):
            fresh, self._fresh = self._visible.fold(fresh, text[-2:], self._base + len(text))
        text += fresh  # the only reference, so it grows in place
        stall, due = None, 0 if self._period else self._search(text)
        if not due:
            stall, due = self._follow_all(text)
        self._due_chars = self._search_chars = due
        self._text = text if len(text) <= KEPT else self._trim(text)
        if self._period:
            return stall
        if self.hold is not None or text[-3:] in text[-10:-1]:
            self._glance(text[-2 * CONTEXT :], 0)
        elif due > GLANCE:
            self._due_chars = GLANCE
        return stall

    def _follow_all(self, text: str) -> tuple[Stall | None, int]:
        """Follow the run, and those that come after it: the first stall, and when to look again."""
        while True:
            stall = self._follow(text)
            if stall:
                return stall, 0  # what stands behind it is due at once
            if self._period:
                return None, self._next_offset() - self._base - len(text)
            due = self._search(text)
            if due:
                return None, due

    def _glance(self, text: str, fresh: int) -> None:
        """Hold back if a tiny unit repeats at the end of the text, and say when to glance again."""
        last, wait = text[-8:], TINY
        if last in FILLED:
            self.hold, wait = None, GLANCE
        elif last not in text[-15:-1]:
            self.hold = None
        elif self.hold is None:
            end = self._base + len(self._text) + fresh
            hold = self._tiny_hold(text, end)
            self.hold = hold if hold is None else self._visible.real_end(hold)
        due = fresh + wait
        self._due_chars = due if due < self._search_chars else self._search_chars

    def _tiny_hold(self, text: str, end: int) -> int | None:
        """From where to hold back a unit below 8 characters that repeats up to the end of the text, an offset."""
        size = len(text)
        period = size - 8 - text.rfind(text[-8:], max(0, size - 15), size - 1)
        least = self.policy.suspect(period, self.policy.kind(text[-period:]))
        if least > 2 * TINY or not repeats(text, size, period, least):
            return None
        return end - size + run_start(text, size - least, period, 0) + period + least

    def _next_offset(self) -> int:
        pulse, trigger = self._at + PULSE, self._trigger
        return pulse if self._reported or pulse < trigger else trigger

    def _trim(self, text: str) -> str:
        spare = (self._at if self._period else self._next) - self._base - HISTORY
        spare -= spare % ALIGNED
        if spare <= 0:
            return text
        self._base += spare
        return text[spare:]

    # Looking for a run

    def _search(self, text: str) -> int:
        """Look at every due offset: in how many characters the next look is due, 0 when a run is locked."""
        last, rfind, base = len(text), text.rfind, self._base
        at = self._next - base
        if self._next - self._at <= CLOSE and self._search_behind_run(text, at):
            return 0
        while at <= last:
            found = rfind(text[at - 16 : at], at - 272 if at > 272 else 0, at - 1)
            step = 32 if found < 0 else self._try_near(text, at, found)
            if not step:
                return 0
            if not at & 63 and at > 320:  # periods above 256
                floor = at - 64 - (512 if at & 64 else _longest_period(text, at))
                found = rfind(text[at - 64 : at], floor if floor > 0 else 0, at - 257)
                if found >= 0 and self._try_far(text, at, found):
                    return 0
            at += step - at % step  # the next multiple of the step
        self._next = base + at
        return at - last

    def _try_near(self, text: str, at: int, found: int) -> int:
        """Weigh the hits of the near level: the step to the next look, 0 when a run is locked."""
        if self._candidate and self._retry_period(text, at):
            return 0
        step = STRIDE
        for _ in range(TRIES):
            period = at - 16 - found
            if text[at - 32 : at] == text[found - 16 : found + 16]:
                if self._lock(text, at, period):
                    return 0
                step = CLOSER if period <= 64 else CLOSE
            elif period <= 40:
                step = CLOSE
            if period <= 4:  # inside a filler run: no other period to be learned from the next hit
                step = STRIDE
                break
            found = text.rfind(text[at - 16 : at], at - 272 if at > 272 else 0, found + 15)
            if found < 0:
                return step
        broke = self._base + at - self._at <= CLOSE  # a run did, just before
        return 0 if (broke or not at & 31) and self._try_long_needles(text, at) else step

    def _try_long_needles(self, text: str, at: int) -> bool:
        """Where the needle has many hits: try longer ones; one as long as the period hits nowhere nearer."""
        tried = 0
        for size in DEEP:
            floor = max(0, at - size - 256)
            found = text.rfind(text[at - size : at], floor, at - 1) if at >= size else -1
            period = at - size - found
            if found < 0 or period <= 4:
                return False
            if period != tried and self._lock(text, at, period):
                return True
            tried = period
        return False

    def _retry_period(self, text: str, at: int) -> bool:
        """Try a period that was seen before but had not lasted long enough; True when it is locked.

        A unit that holds a run of its own ("no no no no, he said. ") shows its period only after that run ends.
        """
        period = self._candidate
        if text[at - 16 : at] != text[at - 16 - period : at - period]:
            self._candidate = 0
            return False
        return self._lock(text, at, period)

    def _search_behind_run(self, text: str, at: int) -> bool:
        """Look for long periods right after a long run broke: inside it they cannot be found from its own."""
        if self._at - self._onset < 128 or not 320 < at <= len(text):
            return False
        found = text.rfind(text[at - 64 : at], max(0, at - 64 - LONGEST), at - 257)
        return found >= 0 and self._try_far(text, at, found)

    def _try_far(self, text: str, at: int, found: int) -> bool:
        """Try the nearest earlier copies of the last 64 characters as periods; True if one is locked."""
        needle = text[at - 64 : at]
        for _ in range(TRIES):
            if self._lock(text, at, at - 64 - found):
                return True
            found = text.rfind(needle, max(0, at - 64 - LONGEST), found + 63)
            if found < 0:
                break
        return False

    def _lock(self, text: str, at: int, period: int) -> bool:
        """Follow this period from here on, if the tail repeats with it for long enough to be suspect."""
        least = self._min_suspect.get(period)
        if least is None:
            least = self._min_suspect[period] = self.policy.min_suspect(period)
        start = at - least - period
        if start < 0 or text[at - least : at] != text[start : at - period]:
            if period >= LASTING and period > self._candidate:
                self._candidate = period
            return False
        unit = text[at - period : at]
        kind = self.policy.kind(unit)
        least = self.policy.suspect(period, kind)
        if not repeats(text, at, period, least):
            return False
        shortest = shortest_unit(unit)
        if shortest < period:
            return self._lock(text, at, shortest)
        if period == self._candidate:
            self._candidate = 0
        start = run_start(text, at - least, period, max(0, at - HISTORY))
        self._period, self._kind, self._reported = period, kind, False
        self._at, self._onset = self._base + at, self._base + start
        if self.hold is None:
            hold = self._onset + period + least if period < TINY else self._at
            self.hold = self._visible.real_end(hold)
        self._trigger = max(self._at, self._onset + self.policy.stall(period, kind))
        return True

    # Following a run

    def _follow(self, text: str) -> Stall | None:
        """Compare what is new with one period earlier; the stall when the run has become long enough."""
        base, period = self._base, self._period
        here, end = self._at - base, len(text)
        if not self._reported:
            end = min(end, self._trigger - base)
        same = common_prefix(text[here:end], text[here - period : end - period])
        self._at += same
        if here + same < end:
            return self._follow(text) if self._goes_on_in_longer_unit(text) else None
        if self._reported or self._at < self._trigger:
            return None
        self._reported = True
        return self._stall(text[end - period : end])

    def _goes_on_in_longer_unit(self, text: str) -> bool:
        """The run broke: whether it was a part of a longer unit that goes on. Else look on from here."""
        self._period, self.hold = 0, None
        self._next = (self._at // CLOSE + 1) * CLOSE
        longer, self._candidate = self._candidate, 0
        at = self._at - self._base
        if not longer or shortest_unit(text[at - longer : at]) < longer:
            return False
        return self._lock(text, at, longer)

    def _stall(self, unit: str) -> Stall:
        copies = (self._at - self._onset) / self._period
        reason = f"{copies:.1f} copies of {self._period} characters ({self._kind})"
        visible, first_copy_end = self._visible, self._onset + self._period
        onset = visible.real_offset(self._onset)
        period = visible.real_end(first_copy_end) - onset
        return Stall(visible.real_end(self._at), onset, period, reason, unit)


def _longest_period(text: str, at: int) -> int:
    """The longest period to look for at this offset, a multiple of 128.

    Periods above 1024 are looked for at every other such offset; if text stutters, even more rarely, because there
    the search is slow.
    """
    if at & 255:
        return 1024
    often = at % (RARELY * 256)  # whether the search is made here only if it is quick
    if often and text.find(text[at - STUTTER : at], at - AMONG, at - 1) >= 0:
        return 1024
    return LONGEST


# Where a text repeats itself one period p apart, text[i] = text[i - p]. Comparing slices is fast.


def shortest_unit(unit: str) -> int:
    """Length of the shortest unit that this one is whole copies of."""
    return (unit + unit).find(unit, 1)


def repeats(text: str, at: int, period: int, size: int) -> bool:
    """Whether the `size` characters before `at` equal those one period earlier."""
    start = at - size - period
    return start >= 0 and text[at - size : at] == text[start : at - period]


def run_start(text: str, at: int, period: int, floor: int) -> int:
    """Where the run of this period that holds at `at` begins, walking back by blocks, then by characters."""
    while at - BLOCK - period >= floor and repeats(text, at, period, BLOCK):
        at -= BLOCK
    while at - period > floor and text[at - 1] == text[at - 1 - period]:
        at -= 1
    return at - period


def common_prefix(left: str, right: str) -> int:
    """How many characters two texts have in common at their beginning: a leap that grows, then bisection."""
    if left == right:
        return len(left)
    at, step, most = 0, BLOCK, min(len(left), len(right))
    while at < most and left[at : at + step] == right[at : at + step]:
        at += step
        step *= 4
    end = min(at + step, most)
    while at < end:
        middle = (at + end + 1) // 2
        if left[at:middle] == right[at:middle]:
            at = middle
        else:
            end = middle - 1
    return min(at, most)
