"""RepeatDetector: text in, Stall out. Bounded memory, any chunking.

It looks for exact contiguous repetition. Every 32 characters it searches the last 16 in
what came before; the distance to a hit is a candidate period p. One comparison tells whether the tail really
repeats, a walk back finds its exact start, and from then on the run is followed until it breaks or is long enough
for a verdict, which depends on the kind of its unit. All these looks are taken at absolute offsets, so the verdict
cannot depend on how the text was cut up. A glance at the end of what was fed holds tiny units back earlier; it has no
part in the verdict.

What a reader does not see is left out before the comparison, so offsets here are those of the visible
text. Stalls and holds are told in offsets of the text as it came.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Stall:
    """The verdict of a detector: where it fell, where the repetition begins, its period (0: unknown), and why."""

    position: int
    onset: int
    period: int
    reason: str
    unit: str = ""


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


@runtime_checkable
class PrimedDetector(Detector, Protocol):
    """A detector that can begin behind a text, as after a rollback; others begin with nothing."""

    def prime(self, text: str) -> None: ...  # noqa: D102


# Kinds of units
#
# A ruler of dashes, a table's padding or a list of zeros repeats in every good answer; a sentence does not.
# So the unit of a repetition (its first `period` characters) is put into one of a few kinds, and each kind
# has two lengths, both growing with the period:
#     suspect  repeated characters after which the tail is held back
#     stall    characters of the whole run, first copy included, after which the answer is cut

UnitKind = Literal[
    "blank", "padding", "rule", "sparse", "dull", "token", "dense", "data", "tiny", "code", "lines", "prose"
]  # fmt: skip

WORDS: tuple[UnitKind, ...] = ("prose", "lines")
TINY = 8  # periods below this are held back after a few characters
SHORT = 40  # periods below this may be fillers, which are held back later
SAMPLE = 1024  # characters of a unit that are looked at; a longer unit does not change its kind
PADDING = frozenset(" -=_.:*#~+|─│")  # what cells are filled and rules are drawn with


def kind_of(unit: str) -> UnitKind:
    """The kind of a unit, from its alphabet.

    blank    one letter, digit or ruler character over more than 8: base64 of zeros, lines to write on
    padding  short, of blanks and ruler characters alone: the cells and rules of a table
    rule     no letter, digit or emoji: other symbols, and longer rules, box drawing, indentation
    sparse   long, with at most 4 different characters or hardly a letter: tables, ASCII art
    dull     long, with at most 6 different characters and no digit
    token    letters and digits in one word that no language has: `GCTA`, `1234567890`, `0123456789abcdef`, base64
    dense    without a blank, with 6 and more different symbols: esoteric programs, regular expressions
    data     short, nearly all digits and separators (`0, 0, 0, `, `L 36 36`); or long, with a digit and at most 6
             different characters: a row of a matrix, of a map of tiles, of bytes
    tiny     at most 4 characters
    code     at least 8 % symbols, or some and at least 40 % blanks: indented
    lines    prose with line ends in it: a line of verse, an item of a list, a refrain
    prose    all the rest, and paragraphs: what has a blank line in it
    """
    counts = Counter(unit[:SAMPLE])
    size = counts.total()
    alphanumeric = sum(n for c, n in counts.items() if c.isalnum() or _is_sign(c))
    digits = sum(n for c, n in counts.items() if c.isdigit())
    marks = counts.keys() - {"\n"}
    if len(marks) <= 1 and size > TINY and (alphanumeric or marks <= PADDING):
        return "blank"
    if not alphanumeric:
        return "padding" if size <= TINY and PADDING.issuperset(counts) else "rule"
    if _is_token(unit, len(marks)):
        return "token"
    if size > 20:
        return _kind_of_long(unit, counts, len(marks), alphanumeric, digits)
    if len(marks) > 1 and digits >= 0.75 * alphanumeric:
        return "data"
    return "tiny" if size <= 4 else _kind_of_words(unit, counts, alphanumeric)


def _is_sign(char: str) -> bool:
    """Whether a character that is no letter says something: an emoji, or braille."""
    return char >= "\U0001f000" or "\u2800" <= char <= "\u28ff"


def _is_token(unit: str, distinct: int) -> bool:
    """Whether a unit is one ASCII word with digits in it or capitals inside, as an identifier is."""
    if distinct < 2 or not unit.isascii() or not unit.isalnum():
        return False
    return not (unit.isalpha() and (unit.islower() or unit.istitle()))


def _kind_of_long(
    unit: str, counts: Counter[str], distinct: int, alphanumeric: int, digits: int
) -> UnitKind:
    if distinct <= 6 and digits:
        return "data"
    if distinct <= 4 or alphanumeric <= 0.2 * counts.total():
        return "sparse"
    return "dull" if distinct <= 6 else _kind_of_words(unit, counts, alphanumeric)


def _kind_of_words(unit: str, counts: Counter[str], alphanumeric: int) -> UnitKind:
    size = counts.total()
    spaces = sum(n for c, n in counts.items() if c.isspace())
    symbols = size - alphanumeric - spaces
    if not spaces and sum(c.isascii() and not c.isalnum() for c in counts) >= 6:
        return "dense"
    if symbols >= 0.08 * size or (symbols and spaces >= 0.4 * size):
        return "code"
    # the unit comes again behind itself
    return "prose" if "\n" not in counts or "\n\n" in unit + unit[0] else "lines"


# Characters of a run that stalls, by the kind of its unit and for its period p: longer than any run in the clean
# answers of many models (docs/figures.md).
STALLS: Mapping[str, Callable[[int], float]] = {
    "prose": lambda p: max(180, 50 + 2.2 * p),  # chants and choruses stay below
    # a chorus is sung three or four times, so that it needs a part of a fifth; a longer unit is none
    "lines": lambda p: max(300, 4.1 * p if p <= 256 else 0),
    "code": lambda p: min(
        240 + 4.5 * p, 750
    ),  # tables, stack traces and logs hold many equal lines
    "tiny": lambda p: 160 if p > 1 else 256,
    "data": lambda p: max(
        480, min(22 * p, 1500)
    ),  # maps and matrices have twenty equal rows and more
    "token": lambda p: 800 if p > 4 else 384,  # keys and placeholders are written out in code
    "dull": lambda p: min(128 + 4.4 * p, 1200),
    "dense": lambda _: 2048,
    "padding": lambda p: 400 if p > 1 else 1024,  # cells of a table are padded to the longest
    "rule": lambda p: 300 if p <= TINY else 1024,
    "sparse": lambda p: max(
        440, 8 * p
    ),  # boards have equal rows, and nested data repeats its blocks
    "blank": lambda _: 8192,
}
FILLERS = ("blank", "rule", "sparse", "data")


class RepeatPolicy:
    """How long a repetition may go on, by kind of its unit; all lengths in characters.

    Clean answers of a small real model hold up to 2.99 exact copies of a paragraph and no more, so no
    kind of text is cut before its third copy is complete. A subclass may know other kinds and lengths.
    """

    def kind(self, unit: str) -> str:
        """The kind of a unit; see kind_of."""
        return kind_of(unit)

    def stall(self, period: int, kind: str) -> int:
        """Characters of the run, first copy included, at which it is a stall."""
        return int(max(STALLS[kind](period), 3 * period))

    def suspect(self, period: int, kind: str) -> int:
        """Repeated characters, first copy not counted, after which the tail is held back."""
        if kind == "padding" or (TINY <= period < SHORT and kind in FILLERS):
            return 120
        return self.min_suspect(period)

    def min_suspect(self, period: int) -> int:
        """A lower bound of `suspect` that needs no kind; the first, cheap comparison."""
        if period < TINY:
            return 17 - period
        # a little over one period, so that one natural repeat is never held
        return int(max(40, 1.05 * period))


# Looking for runs
#
# Short periods are looked for often with a short needle, longer ones rarely with a long needle: a run must repeat
# by more than one period before it matters, so a long period can wait, and a long needle has few hits.
#   every 32 characters   the last 16, for periods up to 256
#   every 64              the last 64, for 257 to 512
#   every 128 / 256       the same, to 1 024 / to 4 096
STRIDE = 32
# Periods below 8 are glanced for at the end of what was fed: every 16 characters whether the last 3 recur among the 9
# before; if they do, there and 8 later whether the last 8 do. So a run is seen before it has over 24 characters.
GLANCE = 16
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


class RepeatDetector:
    """Finds exact contiguous repetition in a stream; one stall per run, onset and period exact.

    `feed` returns the first stall that falls inside the text it was given. What stands behind it is looked at with
    the next `feed`, which may bring no text. After a stall the run is followed in silence until it breaks.
    """

    def __init__(self, policy: RepeatPolicy | None = None) -> None:
        self.policy = policy or RepeatPolicy()
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
        least = self.policy.min_suspect(period)
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


# What a reader does not see
#
# A loop whose copies differ only in a zero-width character, or in the number of blanks between two words, is the same
# loop to a reader. Of up to eight blanks behind a word or a mark the first is kept. More are padding, which may be a
# loop of its own; and indentation, columns of numbers and cells of tables stay as they are.

# Joiners shape Persian, Indic and emoji text and stay there; behind ASCII they shape nothing.
_zero_width = re.compile(
    "[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff]+|(?<=[\x00-\x7f])[\u200c\u200d]+"
)
_blanks = re.compile(r"(?:(?<=[^\W\d_] )|(?<=[.,;:!?] )) {1,7}(?! )")
_needed = re.compile(r"[^\W\d_]  |[.,;:!?]  ")
_unfinished = re.compile(r"(?:(?<=[^\W\d_] )|(?<=[.,;:!?] )) {1,7}\Z")
# Places remembered, which bounds the memory. A stall asks for the beginning of its run, and few runs hold more; an
# older place is then told a little too early.
KEPT_PLACES = 8192


class Gaps:
    """What matches a pattern and was left out of a stream: where, in what remained, and how much up to there."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._offsets: list[int] = []
        self._left_out: list[int] = []
        self.total = 0

    def leave_out(self, text: str, start: int, offset: int) -> str:
        """What remains of a text behind `start`, where it begins at an offset of what remained."""
        parts: list[str] = []
        for found in self._pattern.finditer(text, start):
            parts.append(text[start : found.start()])
            start = found.end()
            offset += len(parts[-1])
            self.total += len(found[0])
            self._offsets.append(offset)
            self._left_out.append(self.total)
        if len(self._offsets) > KEPT_PLACES:
            del self._offsets[: KEPT_PLACES // 2], self._left_out[: KEPT_PLACES // 2]
        return "".join((*parts, text[start:]))

    def add_to(self, offset: int, find: Callable[[list[int], int], int]) -> int:
        """An offset of what remained, with what was left out before it."""
        before = find(self._offsets, offset)
        return offset + (self._left_out[before - 1] if before else 0)


class VisibleText:
    """What was left out of a stream, and where: first what has no width, then of the rest blanks."""

    def __init__(self) -> None:
        self._hidden, self._blanks = Gaps(_zero_width), Gaps(_blanks)

    def fold(self, text: str, before: str, start: int) -> tuple[str, str]:
        """The visible part of the next text, and blanks at its end that may be part of a longer run: feed them again.

        `before` stands visibly before the text, and `start` is its visible offset. A text of nothing but zero-width
        characters is kept: a model that writes no others is in a loop too.
        """
        joined, size = before + text, len(before)
        is_visible = text.isascii() or not _zero_width.search(joined, size)
        if is_visible and not _needed.search(joined):  # as in nearly all code, which is indented
            return text, ""
        if not is_visible:
            if sum(len(found[0]) for found in _zero_width.finditer(joined, size)) == len(text):
                return text, ""
            joined = before + self._hidden.leave_out(joined, size, start + self._blanks.total)
        unfinished = _unfinished.search(joined, size)
        rest = unfinished[0] if unfinished else ""
        return self._blanks.leave_out(joined[: len(joined) - len(rest)], size, start), rest

    def real_offset(self, visible: int) -> int:
        """The offset, in the text as it came, of a character of the visible text."""
        return self._hidden.add_to(self._blanks.add_to(visible, bisect_right), bisect_right)

    def real_end(self, visible: int) -> int:
        """The same for the end of a part: behind its last character, before anything that is left out there."""
        return self._hidden.add_to(self._blanks.add_to(visible, bisect_left), bisect_left)


# Loops that count ("Item 41 ... Item 42 ...")
#
# The text is folded, every run of digits to one "0", and the folded text is watched by a RepeatDetector
# with its own, longer lengths. Data tables fold to repetitions too, so a run counts as a loop only when
# each column of numbers stands still or steps evenly. Long good lists count as well: a reason to warn,
# not to cut. It works on blocks at absolute offsets, so chunking cannot matter, and it rests if no digit comes.

FOLDED = 64  # characters folded at a time
# Characters without a digit after which the detector sleeps. Chosen, not measured: prose without
# numbers should cost nothing.
QUIET = 1024
# Last copies whose numbers must step evenly. Chosen, not measured: five copies give four steps
# to compare.
EVEN_COPIES = 5
# Share of equal steps that makes a column even. Chosen, not measured: a model that counts may skip a number.
EVEN = 0.5
LONGEST_NUMBER = 20  # digits of a number that are looked at
KEPT_NUMBERS = 4096  # numbers remembered

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
        whole = len(waiting) - len(waiting) % FOLDED
        self._pending = waiting[whole:]
        stall = None
        for start in range(0, whole, FOLDED):
            found = self._feed_block(waiting[start : start + FOLDED])
            stall = stall or found
        return stall

    def _feed_block(self, block: str) -> Stall | None:
        self._seen += FOLDED
        self._quiet = 0 if _digit.search(block) else self._quiet + FOLDED
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
            self._folded.rearm(2 * stall.period + FOLDED)
            return None
        return Stall(self._seen, 0, stall.period, f"counting: {stall.reason}", stall.unit)

    def _fold(self, block: str) -> str:
        """The block with every number as one "0"; its numbers join the list."""
        found = _digits.findall(block)
        folded = _digits.sub("0", block)
        if self._open and block[0].isdecimal():  # the first number began in the block before
            self._numbers[-1] = (self._numbers[-1] + found[0])[:LONGEST_NUMBER]
            del found[0]
            folded = folded[1:]
        self._numbers += [number[:LONGEST_NUMBER] for number in found]
        if len(self._numbers) > KEPT_NUMBERS:
            del self._numbers[: KEPT_NUMBERS // 2]
        return folded

    def _steps_evenly(self, columns: int) -> bool:
        """Whether each column of the last copies is constant or steps evenly; the last number may be unfinished."""
        size = columns * EVEN_COPIES
        numbers = [int(number) for number in self._numbers[-size - 1 : -1]]
        if not size or len(numbers) < size:
            return False
        return all(_is_steady(numbers[column::columns]) for column in range(columns))


def _is_steady(column: list[int]) -> bool:
    steps = [after - before for before, after in pairwise(column)]
    return max(map(steps.count, steps)) >= EVEN * len(steps)
