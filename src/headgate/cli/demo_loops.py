"""What `headgate demo` shows of the guard: a stream that loops, cut and resumed, and a circle of tool calls, broken.

The stream and the session are written by us after what small models do. They run through the real guard, a few
characters and a message at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.guard import Cut, Guard
from headgate.guard.ladder import annotate, climb, describe
from headgate.guard.policy import CirclesPolicy

QUESTION = "The nightly job failed. What happened, and what do I do?"
_GOOD = (
    "The nightly job failed because the disk of the build machine is full: the last lines of its log say that no space "
    "is left on the device. Most of the space is taken by old container images.\n\n"
)
_UNIT = (
    "Remove the images that no job has used for a week, and check with the disk command how much space that gave back "
    "before you start the job again.\n"
)
STREAM = _GOOD + _UNIT * 12
RESUMED = "of retired projects, too. Then start the job again. If the disk fills up within a day, raise the size of the volume."
_STEP = 6  # characters that the model sends at a time


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a client saw of a stream that looped, and what the guard did."""

    text: str
    cuts: Sequence[Cut]
    read_chars: int
    asked: str
    """What the model was told when it was asked to go on."""


def cut_and_resume() -> Resumed:
    """Run the looping stream through the guard; the second call of the model goes on where the first was cut."""
    calls: list[Sequence[Mapping[str, Any]]] = []
    read = 0

    def generate(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        nonlocal read
        calls.append(messages)
        text = STREAM if len(calls) == 1 else RESUMED
        for at in range(0, len(text), _STEP):
            read += _STEP if len(calls) == 1 else 0
            yield text[at : at + _STEP]

    guard = Guard(generate)
    seen = "".join(piece.text for piece in guard.iterate(QUESTION))
    assert guard.report is not None
    return Resumed(seen, guard.report.cuts, read, str(calls[-1][-1]["content"]))


@dataclass(frozen=True, slots=True)
class Broken:
    """A session in which an agent repeats itself: which calls it made, and what it is told at which message."""

    calls: tuple[str, ...]
    notes: tuple[tuple[int, str], ...]
    ended: bool


def break_circle() -> Broken:
    """Let an agent read the same missing file again and again, and see what the ladder says to it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the failing build."}]
    calls = []
    for turn in range(8):
        name, arguments, result = _STEPS[turn % 2]
        call = {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": arguments}}  # fmt: skip
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": result.format(turn=turn)},
        ]
        calls.append(f"{name} {arguments}")
    found = climb(messages, CirclesPolicy())
    assert annotate(messages, found.marks) != messages
    return Broken(tuple(calls), tuple((m.at, describe(m)) for m in found.marks), found.ended is not None)  # fmt: skip


_STEPS = (
    ("read_file", '{"path": "build/config.yaml"}', "error: build/config.yaml: no such file"),
    ("run", '{"command": "make build"}', "make: *** no rule to make target 'config.yaml'. Stop. (0.{turn}1 s)"),
)  # fmt: skip
