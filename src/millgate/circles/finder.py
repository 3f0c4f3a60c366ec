"""Tool-call circles: the same calls with the same results, again and again.

    circle = check(messages)      # the conversation so far, of any of the three APIs
    if circle: print(circle.describe())

A circle is a tail of the conversation, since the last message of a person, that repeats with a period of 1 to 6
actions: x[i] = x[i - period]. An action is a tool, its arguments and its result (action.py); so polling, re-reading
after an edit and retries with another outcome are not circles. If the model only speaks, its texts are the actions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from millgate.circles.action import Action
from millgate.circles.masks import Effort, without_note
from millgate.circles.reader import Reader
from millgate.errors import InputError
from millgate.transcript.parts import as_json

COPIES = 3  # from which on it is a circle: people, too, do the same thing twice
MAX_PERIOD = 6
# characters of results compared since a person spoke, which bounds the time; later results equal nothing
MAX_CHARS = 8_000_000
SHOWN = 160  # characters of arguments and of a result that are shown to model and person
Kind = Literal["calls", "text"]


@dataclass(frozen=True, slots=True)
class Tried:
    """One action of a circle, shortened: what was called and what came back."""

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
    kind: Kind = "calls"

    def describe(self) -> str:
        """One sentence for a person."""
        if self.kind == "text":
            return f"the same text was said {self.copies} times"
        names = ", ".join(dict.fromkeys(action.tool for action in self.tried))
        if self.period == 1:
            return f"{names} was called {self.copies} times with the same arguments and the same result"
        return f"the same {self.period} calls ({names}) were made {self.copies} times with the same results"


class Run:
    """Actions in a row, and for each period how long their tail has repeated."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.clear()

    def clear(self) -> None:
        """Forget all actions."""
        self.actions: list[Action] = []
        self._chars = 0  # of results that had to be compared
        self._effort = Effort()  # of comparing them
        self._repeats: list[
            int
        ] = []  # by period, from 1: how many actions equal the one a period before

    def push(self, action: Action) -> None:
        """One more action."""
        near, same = self.actions[: -MAX_PERIOD - 1 : -1], None
        if any(other.call == action.call for other in near):
            self._chars += len(action.text)
            if self._chars <= MAX_CHARS:
                same = action.find_same(near, self._effort)
        self.actions.append(action)
        if same is None:  # nearly always: nothing like it happened lately
            self._repeats = []
            return
        first = action.first = same.first or same
        before = [*self._repeats, *[0] * MAX_PERIOD]
        self._repeats = [
            n + 1 if (other.first or other) is first else 0
            for n, other in zip(before, near, strict=False)
        ]

    def circle(self, copies: int) -> Circle | None:
        """The shortest circle at the tail that has at least `copies`; who polls is in none."""
        lengths = ((p, n + p) for p, n in enumerate(self._repeats, 1) if n)
        period, length = next(((p, n) for p, n in lengths if n >= copies * p), (0, 0))
        actions, last_round = self.actions[-length:], self.actions[-period:]
        if not period or any(action.waits for action in last_round):
            return None
        # results of one turn come in any order
        first, last = min(a.at for a in actions[:period]), max(a.at for a in last_round)
        tried = tuple(map(_shorten, last_round))
        return Circle(period, length // period, tried, first, last, self.kind)


class CircleFinder:
    """Follows a conversation message by message: after each one, the circle it stands in."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._calls, self._texts = Run("calls"), Run("text")

    def feed(self, at: int, message: object, *, continues: bool = False) -> bool:
        """Take the next message in; whether it completed an action or ended a circle.

        `continues`: it goes on with the model's turn before it.
        """
        changed = False
        for action in self._reader.read(at, message, continues=continues):
            changed = True
            if action is None:
                self._calls.clear()
                self._texts.clear()
            elif action.tool:
                self._texts.clear()
                self._calls.push(action)
            else:
                self._texts.push(action)
        return changed

    @property
    def run(self) -> Run:
        """What happened last: calls, or texts if the model only spoke."""
        return self._texts if self._texts.actions else self._calls

    def circle(self, copies: int = COPIES) -> Circle | None:
        """The circle at the end of what was fed, None if there is none."""
        return self.run.circle(copies)


def check(messages: Iterable[Any], *, copies: int = COPIES) -> Circle | None:
    """The circle in which a conversation ends, None if it does not."""
    if not isinstance(messages, Iterable):
        raise InputError(f"messages is {type(messages).__name__}, not a list of messages")
    finder = CircleFinder()
    for at, message in enumerate(messages):
        finder.feed(at, message)
    return finder.circle(max(copies, 2))


def _shorten(action: Action) -> Tried:
    """An action as it is shown: on one line, and not whole."""
    arguments = action.arguments if isinstance(action.arguments, str) else as_json(action.arguments)
    return Tried(action.tool, clip(arguments), clip(without_note(action.result)))


def clip(text: str, most: int = SHOWN) -> str:
    """The beginning of a text on one line, without control characters."""
    part = " ".join(text[: 4 * most].split())
    if not part.isprintable():
        part = " ".join("".join(c if c.isprintable() else " " for c in part).split())
    return part if len(part) <= most and len(text) <= 4 * most else part[: most - 1] + "…"
