"""Tool-call circles: the same calls with the same results, again and again.

    circle = check(messages)      # the conversation so far, of any of the three APIs
    if circle: print(circle.describe())

A circle is a tail of the conversation, since the last message of a person, that repeats with a period of 1 to 6 steps:
x[i] = x[i - period]. A step is (tool, arguments, result); two are the same when the arguments are the same JSON and the results
differ only in what changes by itself (`masks`). So polling, re-reading after an edit and retries with another
outcome are none. Where the model only speaks, its texts are the steps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headgate.guard.calls import Event, Reader, events_of
from headgate.guard.masks import without_note
from headgate.guard.steps import Step, text_of

COPIES = 3  # from so many on it is a circle: twice the same is how people work, too
MAX_PERIOD = 6
TAIL = 128  # messages that are read first
MAX_CHARS = 8_000_000  # of results compared since a person spoke; what comes after equals nothing, for comparing takes time
_NONE = (0,) * MAX_PERIOD
SHOWN = 160  # characters of arguments and of a result that are shown to model and person


@dataclass(frozen=True, slots=True)
class Tried:
    """One step of a circle, shortened: what was called and what came back."""

    tool: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True)
class Circle:
    """A tail that repeats: how long one round is, how often it was made, and what stands in it.

    `first` and `last` are the places, in the messages, of the first and the last result that belong to it.
    """

    period: int
    copies: int
    tried: tuple[Tried, ...]
    first: int
    last: int
    kind: Literal["calls", "text"] = "calls"

    def describe(self) -> str:
        """One sentence for a person."""
        if self.kind == "text":
            return f"the same text was said {self.copies} times"
        names = ", ".join(dict.fromkeys(step.tool for step in self.tried))
        if self.period == 1:
            return f"{names} was called {self.copies} times with the same arguments and the same result"
        return f"the same {self.period} calls ({names}) were made {self.copies} times with the same results"


class Run:
    """Steps in a row, and for each period how long their tail has repeated."""

    def __init__(self, kind: Literal["calls", "text"]) -> None:
        self.kind: Literal["calls", "text"] = kind
        self.steps: list[Step] = []
        self._calls: list[int] = []  # the number of each step's call
        self._chars = 0  # of results that had to be compared
        self._repeats = _NONE  # by period, from 1: how many steps equal the one a period before

    def is_inside(self, circle: Circle) -> bool:
        """Whether a circle begins well behind the first step, so that nothing before it belongs to it."""
        return self._repeats[circle.period - 1] + 2 * MAX_PERIOD < len(self.steps)

    def push(self, step: Step) -> None:
        """One more step."""
        call, twin = step.call, None
        near = self.steps[: -MAX_PERIOD - 1 : -1]
        if call in self._calls[-MAX_PERIOD:]:
            self._chars += len(text_of(step.result))
            if self._chars <= MAX_CHARS:
                twin = step.find_same(near)
        self.steps.append(step)
        self._calls.append(call)
        if twin is None:  # the rule: nothing like it happened lately
            self._repeats = _NONE
            return
        first = step.first = twin.first or twin
        repeats = [
            n + 1 if (other.first or other) is first else 0
            for n, other in zip(self._repeats, near, strict=False)
        ]
        self._repeats = (*repeats, *_NONE[len(near) :])

    def clear(self) -> None:
        """Forget all steps."""
        if self.steps:
            self.steps, self._calls, self._chars, self._repeats = [], [], 0, _NONE

    def tail(self, copies: int) -> tuple[int, int] | None:
        """Period and copies of the shortest circle at the tail that has at least so many."""
        if self._repeats is _NONE:
            return None
        for period, repeats in enumerate(self._repeats, 1):
            if repeats and repeats + period >= copies * period:
                for step in self.steps[-period:]:
                    if step.waits:
                        return None
                return period, (repeats + period) // period
        return None

    def circle(self, copies: int) -> Circle | None:
        """The shortest circle at the tail that has at least so many copies."""
        found = self.tail(copies)
        if found is None:
            return None
        period, made = found
        part = self.steps[-self._repeats[period - 1] - period :]
        tried = tuple(map(shorten, part[-period:]))
        return Circle(period, made, tried, part[0].at, part[-1].at, self.kind)


class CircleFinder:
    """Follows a conversation message by message: after each one, the circle it stands in."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._calls, self._texts = Run("calls"), Run("text")

    def feed(self, at: int, events: Iterable[Event]) -> bool:
        """Take the next message in, as its events; whether it completed a step or lifted a circle."""
        changed = False
        for step in self._reader.read(at, events):
            changed = True
            if step is None:
                self._calls.clear()
                self._texts.clear()
            elif step.tool:
                self._texts.clear()
                self._calls.push(step)
            else:
                self._texts.push(step)
        return changed

    @property
    def run(self) -> Run:
        """What happened last: calls, or texts where the model only spoke."""
        return self._texts if self._texts.steps else self._calls

    def circle(self, copies: int = COPIES) -> Circle | None:
        """The circle at the end of what was fed, None where there is none."""
        return self.run.circle(copies)


def check(messages: Iterable[Any], *, copies: int = COPIES) -> Circle | None:
    """The circle in which a conversation ends, None where it does not.

    Only the tail is read, and more of it only while a circle reaches back to where reading began.
    """
    known = messages if isinstance(messages, Sequence) else list(messages)
    enough = (
        copies + 2
    ) * MAX_PERIOD  # steps that hold every circle of so many copies, and two more rounds
    start = len(known)
    while True:
        start = max(0, start - TAIL - 3 * (len(known) - start))
        finder = CircleFinder()
        for at in range(start, len(known)):
            finder.feed(at, events_of(known[at]))
        circle = finder.circle(copies)
        if start == 0 or (
            len(finder.run.steps) >= enough and (circle is None or finder.run.is_inside(circle))
        ):
            return circle


def shorten(step: Step) -> Tried:
    """A step as it is shown: on one line, and not whole."""
    arguments = step.arguments if isinstance(step.arguments, str) else text_of(step.arguments)
    return Tried(step.tool, clip(arguments), clip(without_note(text_of(step.result))))


def clip(text: str, most: int = SHOWN) -> str:
    """The beginning of a text on one line, without control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"
