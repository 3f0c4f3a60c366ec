"""Channels: what a model streams, kept apart: content, reasoning, tool calls.

A Piece is its text, with the channel it came on, so a list of content pieces joins to the answer.
Each Channel has its own detector and its own held-back tail. While its detector suspects a repetition,
text past the point of suspicion waits; it goes out when the suspicion passes and is cut when it does not.
A channel that is delivered whole (tool calls and structured output, if asked for) waits until it is complete.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from millgate.errors import InputError
from millgate.guard.detectors import (
    HISTORY,
    Detector,
    HoldingDetector,
    PatientDetector,
    PrimedDetector,
    Stall,
    holds_text_back,
)
from millgate.guard.relapse import RelapseDetector
from millgate.guard.resume import first_boundary, last_boundary

CONTENT = "content"
REASONING = "reasoning"
TOOL = "tool"
EVENT = "event"  # no text: roles, pings, usage, finish reasons
MAX_COPIES = (
    2.5  # copies within which a cut may move on to a boundary: the client never gets a third
)


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


class Unwatched:
    """A detector that finds nothing."""

    def feed(self, text: str) -> Stall | None:
        """Never a stall."""
        return None

    def reset(self) -> None:
        """Nothing to forget."""


@dataclass(slots=True)
class Channel:
    """One channel on its way to the client: what was sent, what waits, and who watches."""

    name: str
    make: Callable[[], Detector]
    hold_back: bool = True
    whole: bool = False
    max_hold: int = 16_384
    call: int = 0
    sent: int = 0  # characters the client has
    begun: bool = False  # whether the client has any piece of it, even one without text
    detector: Detector = field(init=False)
    holding: HoldingDetector | None = field(init=False)  # the same, if it holds text back
    elided: int = 0  # characters left out of the current call, since the client has them already
    relapse: RelapseDetector = field(default_factory=RelapseDetector)
    _call_start: int = 0  # offset at which the current call began
    _waiting: list[Piece] = field(default_factory=list)
    _held: int = 0  # characters waiting
    _base: int = 0  # offset of the detector's first character
    _waived_hold: int | None = None  # a suspicion whose hold went on for too long
    _tail: list[str] = field(default_factory=list)  # the last texts sent, for the detector ...
    _tail_chars: int = 0  # ... after a rollback, and their characters

    def __post_init__(self) -> None:
        self._use(self.make())

    @property
    def held(self) -> int:
        """Characters that wait."""
        return self._held

    @property
    def waiting(self) -> str:
        """The text that waits."""
        return "".join(self._waiting)

    @property
    def has_waiting(self) -> bool:
        """Whether anything waits, even without text."""
        return bool(self._waiting)

    @property
    def tail(self) -> str:
        """The last text sent."""
        return "".join(self._tail)

    @property
    def last(self) -> str:
        """The last character sent, or nothing."""
        return next((text[-1] for text in reversed(self._tail) if text), "")

    def feed(self, piece: Piece) -> Stall | None:
        """Take a piece in; a stall in offsets of the whole channel, or None."""
        self.wait(piece)
        relapsing = self.relapse.hold is not None
        stall = self.detector.feed(piece.text)
        if stall:
            stall = _shift(stall, self._base)
        elif stall := self.relapse.feed(piece.text):
            stall, relapsing = _shift(stall, self._call_start), True
        if stall and relapsing and self.hold_back and not self.elided:
            return self._elide(stall.position - self.sent)
        return stall

    def _elide(self, chars: int) -> Stall | None:
        """Leave out a copy that the client already has, once in a call; watch what follows it."""
        rest = self.waiting[chars:]
        self._waiting = [piece for piece in self._waiting if not piece]
        self._held, self.elided, self._call_start = 0, chars, self.sent
        self._watch()
        return self.feed(Piece(self.name, rest, call=self.call)) if rest else None

    @property
    def hold(self) -> int | None:
        """Offset from which text waits, or None: the earlier of what the two detectors say."""
        suspected = self.holding.hold if self.holding is not None else None
        holds = [suspected + self._base] if suspected is not None else []
        if self.relapse.hold is not None:
            holds.append(self.relapse.hold + self._call_start)
        return min(holds, default=None)

    def wait(self, piece: Piece) -> None:
        """Let a piece wait."""
        self._waiting.append(piece)
        self._held += len(piece)

    def queue(self, piece: Piece) -> None:
        """Let an event wait its turn behind the text that waits."""
        self._waiting.append(piece)

    def ready(self) -> list[Piece]:
        """What may go out now."""
        if not self._waiting or self.whole:
            return []
        hold = self.hold
        if hold is None or not self.hold_back or hold == self._waived_hold:
            return self.release()
        if self._held > self.max_hold:
            return self.waive()
        free = self.waiting[: max(0, hold - self.sent)]
        return self.send(last_boundary(free) or len(free), split=False)

    def waive(self) -> list[Piece]:
        """Send what waits, and hold no more for the present suspicion."""
        self._waived_hold = self.hold
        return self.release()

    def release(self) -> list[Piece]:
        """Send everything that waits."""
        return self.send(self._held)

    def send(self, chars: int, *, split: bool = True) -> list[Piece]:
        """Send the next `chars` characters that wait; a piece may be cut in two.

        Without `split`, a piece that came in an event waits whole: if the suspicion passes, the event goes out as it
        came.
        """
        out: list[Piece] = []
        queue, at = self._waiting, 0
        while at < len(queue) and len(queue[at]) <= chars:
            chars -= len(queue[at])
            out.append(queue[at])
            at += 1
        rest = queue[at:]
        if chars and rest and (split or rest[0].raw is None):
            out.append(Piece(self.name, rest[0].text[:chars], call=rest[0].call))
            rest[0] = Piece(self.name, rest[0].text[chars:], call=rest[0].call)
        self._waiting = rest
        self._book(out)
        return out

    def first_copy_chars(self, stall: Stall, reach: int) -> int:
        """How many waiting characters end the first copy of a loop, moved on to a boundary at most `reach` away."""
        first = max(self.sent, stall.onset + stall.period)
        waiting = self.waiting
        start = min(first - self.sent, len(waiting))
        allowed = stall.onset + int(MAX_COPIES * stall.period) - first
        last = waiting[start - 1] if start else self.last
        if not stall.period or allowed <= 0 or last.isspace():
            return start
        return start + first_boundary(waiting[start:], min(allowed, reach))

    def _book(self, out: list[Piece]) -> None:
        if not out:
            return
        text = "".join(out)
        self._held -= len(text)
        self.record_sent(text)

    def record_sent(self, text: str) -> None:
        """Note text that the client has."""
        self.begun = True
        self.sent += len(text)
        self._tail.append(text)
        self._tail_chars += len(text)
        if self._tail_chars > 2 * HISTORY:
            self._tail = ["".join(self._tail)[-HISTORY:]]
            self._tail_chars = HISTORY

    def let_pass(self, stall: Stall, chars: int) -> Stall | None:
        """Let the repetition of a stall go on, up to this length of its run; the next stall, if any."""
        if not stall.period:
            self.relapse.stop_watching()
        elif isinstance(self.detector, PatientDetector):
            self.detector.rearm(chars - (stall.position - stall.onset))
        further = self.detector.feed("")  # what came behind the stall
        self._waived_hold = self.hold
        return _shift(further, self._base) if further else None

    def stop_watching(self) -> list[Piece]:
        """Send everything that waits; what follows passes unwatched."""
        self._use(Unwatched())
        self.whole, self.relapse = False, RelapseDetector()
        return self.release()

    def drop(self) -> int:
        """Forget what waits; the number of characters forgotten."""
        dropped, self._held = self._held, 0
        self._waiting = []
        return dropped

    def rewind(self) -> None:
        """After a rollback: watch on from what the client has, so that a loop cannot begin again unseen."""
        self.drop()
        self._waived_hold, self._call_start, self.elided = None, self.sent, 0
        self._watch()

    def _watch(self) -> None:
        tail = "".join(self._tail)
        self.relapse.restart(tail)
        if isinstance(self.detector, PrimedDetector):
            self.detector.prime(tail)
            self._base = self.sent - self._tail_chars
        else:
            self.detector.reset()
            self._base = self.sent

    def _use(self, detector: Detector) -> None:
        """Let a detector watch from here; whether it holds text back is asked once, and not for every token."""
        self.detector = detector
        self.holding = detector if holds_text_back(detector) else None


def _shift(stall: Stall, base: int) -> Stall:
    """The same stall in offsets that begin `base` characters earlier."""
    if not base:
        return stall
    return replace(stall, position=stall.position + base, onset=stall.onset + base)
