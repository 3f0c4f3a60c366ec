"""Steps: what Millgate does about a circle of tool calls, more with every step.

note   the last result of the third copy gets a short note: this was done before, and it did not help
list   that of the fifth gets a longer one: what was tried, and what came back
end    after the eighth the model is not asked again; the turn ends with a plain message that says what happened
A person's message resets it: counting starts again behind it.
The prefix law holds: whether message i gets a note, and its bytes, depend on messages up to i alone. So the notes of a
conversation stand at the same places in every later request, and the provider's cache of its prefix stays valid.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from millgate.circles.finder import Circle, CircleFinder
from millgate.circles.masks import note_of
from millgate.circles.policy import CirclesPolicy, CircleStep
from millgate.circles.reader import ENDING
from millgate.transcript.parts import is_result

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """A step reached: at which message, and in which circle."""

    at: int
    step: CircleStep
    circle: Circle


@dataclass(frozen=True, slots=True)
class CircleSteps:
    """The steps that a conversation has reached: the notes it gets, and the circle for which its turn ends."""

    marks: tuple[Mark, ...] = ()
    ended: Circle | None = None


class CircleFollower:
    """Follows a conversation message by message, and keeps which steps it has reached."""

    def __init__(self, policy: CirclesPolicy) -> None:
        self._steps = policy.active
        self._end = policy.rungs.get("end")
        self._finder = CircleFinder()
        self._marks: list[Mark] = []
        self._last: tuple[int, CircleStep] | None = None  # period and step that it is at
        self.read = 0
        """How many messages it has taken in."""

    def feed(self, at: int, message: object, *, continues: bool = False) -> None:
        """Take the next message in. `continues`: it goes on with the model's turn before it."""
        self.read = at + 1
        if not self._steps or not self._finder.feed(at, message, continues=continues):
            return
        run, (least, _) = self._finder.run, self._steps[-1]
        circle = run.circle(least)
        if circle is None:
            if run.kind == "calls":  # words between two calls do not end a circle
                self._last = None
            return
        step = next(step for copies, step in self._steps if circle.copies >= copies)
        if (circle.period, step) != self._last and run.kind == "calls":
            self._marks.append(Mark(at, step, circle))
        self._last = circle.period, step

    @property
    def found(self) -> CircleSteps:
        """The steps reached so far."""
        circle = self._finder.circle(self._end) if self._end else None
        return CircleSteps(tuple(self._marks), circle)


def find_steps(
    messages: Sequence[Any], policy: CirclesPolicy, *, continues: Collection[int] = ()
) -> CircleSteps:
    """All steps that a conversation has reached, message by message.

    `continues` are the messages that go on with the model's turn before them.
    """
    follower = CircleFollower(policy)
    for at, message in enumerate(messages):
        follower.feed(at, message, continues=at in continues)
    return follower.found


def annotate(messages: Sequence[Any], marks: Sequence[Mark]) -> list[Any]:
    """The messages with their notes; those without one are the same objects."""
    noted = list(messages)
    for mark in marks:
        if mark.step != "end":
            noted[mark.at] = with_note(noted[mark.at], note_of(describe(mark)))
    return noted


def describe(mark: Mark) -> str:
    """The note of a step."""
    circle = mark.circle
    again = "the same call" if circle.period == 1 else f"the same {circle.period} calls"
    note = (
        f"{again} came back with the same result for the {_ordinal(circle.copies)} time. "
        "Repeating will not change it. Try another way, or say what stands in the way."
    )
    if mark.step == "note":
        return note
    rows = (
        f"{number}. {tried.tool} {tried.arguments} -> {tried.result or '(nothing)'}"
        for number, tried in enumerate(circle.tried, 1)
    )
    return f"{note} Tried {circle.copies} times:\n" + "\n".join(rows)


def ending(circle: Circle) -> str:
    """The message that ends the turn."""
    if circle.kind == "text":
        return f"{ENDING}said the same {circle.copies} times. Tell me how to go on."
    first = circle.tried[0]
    came = f" The last result of {first.tool} was: {first.result}" if first.result else ""
    return (
        f"{ENDING}was going in circles: {circle.describe()}.{came}\n\n"
        "Nothing new was learned from the last rounds. Tell me how to go on."
    )


def with_note(message: Message, note: str) -> Message:
    """The message with a note behind its last tool result, or behind its text if that is the result."""
    if message.get("role") in ("tool", "function"):
        return {**message, "content": _append(message.get("content"), note, "text")}
    if is_result(message) and "output" in message:
        return {**message, "output": _append(message["output"], note, "input_text")}
    blocks = message.get("content")
    if isinstance(blocks, str):  # what came back of code in the model's text
        return {**message, "content": blocks + note}
    if not isinstance(blocks, list):
        return message
    places = [n for n, block in enumerate(blocks) if is_result(block)]
    if not places:
        return {**message, "content": _append(blocks, note, "text")}
    block = blocks[places[-1]]
    noted = {**block, "content": _append(block.get("content"), note, "text")}
    return {**message, "content": [*blocks[: places[-1]], noted, *blocks[places[-1] + 1 :]]}


def _append(content: object, note: str, kind: str) -> object:
    """Content with a note at its end; content that is neither text nor a list of parts cannot hold one."""
    if content is None:
        return note.lstrip()
    if isinstance(content, str):
        return content + note
    if isinstance(content, list):
        return [*content, {"type": kind, "text": note}]
    return content


def _ordinal(number: int) -> str:
    return {3: "third", 4: "fourth", 5: "fifth", 6: "sixth", 7: "seventh", 8: "eighth"}.get(number, f"{number}th")  # fmt: skip
