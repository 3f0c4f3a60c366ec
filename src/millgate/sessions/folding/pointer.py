"""Pointer: the sentence that stands in place of lines which the window holds already.

    [These 54 lines are, character for character, lines 12 to 65 of the result of your call Read(/src/a.py), call
    toolu_01A, above: from "def f(x):" to "return y". Nothing was deleted; read them there.]

It is one line of plain English, and all of it can be read back: `resolve` finds the one place that fits. Tools print
the same file with and without line numbers, from another number on, or indented by a block around it. So a line is
compared without its number and without a shift of its indentation, and the pointer says in words what differs.

A number counts as printed only if lines before or behind it go on counting. A line of a log that begins with a time, or
of a table that begins with an amount, is text.

A tool may return text that reads like a pointer. If it would be read back, one more space is put behind its bracket,
and taken away again when the conversation is expanded.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from millgate.circles.finder import clip

MIN_LINES = 20  # shorter runs stay: a pointer takes as much attention as it saves
MIN_COUNTED = 3  # lines that count on in a row: two may do so by chance
QUOTED = 40  # characters of the first and the last line that are quoted
# How tools end a line's number: Claude Code's arrow, `cat -n` and `nl`, `grep -n` and its context, and bars.
_NUMBER = re.compile(r"( {0,12})([1-9][0-9]{0,6})(→|\t|: ?|-|\| ?|│ ?)")
_POINTER = re.compile(
    r"\[(?P<spaces> *+)These (?P<count>\d{1,9}) lines are, character for character, "
    r"lines (?P<printed>numbered )?(?P<first>\d{1,9}) to (?P<last>\d{1,9}) of (?P<name>[^\"\n]{1,500}), above: "
    r'from "(?P<begins>[^"\n]{0,99})" to "(?P<ends>[^"\n]{0,99})"\. '
    r'(?:Here they are numbered as in (?P<number>"[^"\n]{1,99}")\. )?'
    r"(?P<bare>Here they have no line numbers\. )?"
    r"(?:Here they are indented by (?P<shift>\d{1,4}) (?P<sign>more|fewer) (?P<unit>spaces|tabs)\. )?"
    r"(?:The file was edited since; these lines were not\. )?"
    r"Nothing was deleted; read them there\.\]"
)


class Numbers(NamedTuple):
    """How the numbers of a row of lines are printed: padded to a width, and what stands behind them."""

    width: int
    mark: str

    def write(self, number: int) -> str:
        """A number as it stands before its line."""
        return f"{number:>{self.width}}{self.mark}"


@dataclass(slots=True)
class Lines:
    """A text as lines. `bodies` are without their numbers; `rows` tells lines apart that do not belong together.

    Two lines have the same row if both have no number, or if their numbers are of one sequence.
    """

    lines: list[str]
    bodies: list[str]
    numbers: list[int]
    """The printed number of each line, 0 without one."""
    rows: list[int]
    formats: dict[int, Numbers] = field(default_factory=dict)
    """By row: how its numbers are printed."""


def read_lines(lines: list[str]) -> Lines:
    """Lines as the model sees them. One that reads like a pointer belongs to no run: nothing points to a pointer."""
    read = Lines(lines, list(lines), [0] * len(lines), [0] * len(lines))
    row = at = 0
    while at < len(lines):
        end = at + 1
        if found := _NUMBER.match(lines[at]):
            format, first = Numbers(len(found[1] + found[2]), found[3]), int(found[2])
            while end < len(lines) and lines[end].startswith(format.write(first + end - at)):
                end += 1
            if end - at >= MIN_COUNTED:
                row += 1
                read.formats[row] = format
                for place in range(at, end):
                    read.numbers[place], read.rows[place] = first + place - at, row
                    read.bodies[place] = lines[place][len(format.write(first + place - at)) :]
                row += 1
                at = end
                continue
        read.rows[at] = row
        at += 1
    for at, _ in find_pointers(lines):
        read.rows[at] = -1 - at
    return read


class Change(NamedTuple):
    """What makes the lines of one place from those of another: other numbers, and a shift of the indentation."""

    first: int = 0
    """The number of the first line ..."""
    format: Numbers | None = None
    """... and how it is printed; None without numbers."""
    more: str = ""
    """White space that the lines have more at their beginning than those of the other place ..."""
    fewer: str = ""
    """... or fewer."""

    def apply(self, bodies: Sequence[str]) -> list[str] | None:
        """Lines as they stand at the other place; None if they cannot."""
        made: list[str] = []
        for number, body in enumerate(bodies, self.first):
            shifted = self.shift(body)
            if shifted is None:
                return None
            made.append((self.format.write(number) if self.format else "") + shifted)
        return made

    def shift(self, body: str) -> str | None:
        """A line with the shift; None if it cannot be shifted so. Blank lines stay as they are."""
        if not body.strip():
            return body
        return self.more + body[len(self.fewer) :] if body.startswith(self.fewer) else None


class Run(NamedTuple):
    """A run of whole lines that stand at two places: `start` to `end` here, from `source` on there."""

    start: int
    end: int
    source: int
    change: Change | None
    """None: the lines are the same, numbers included."""

    @property
    def source_end(self) -> int:
        """Where it ends there."""
        return self.source + self.end - self.start


def find_run(here: Lines, at: int, there: Lines, place: int, least: int) -> Run | None:
    """The longest run around a pair of lines, which reaches back to `least` at most; None if the two differ."""
    found, offset = _find_change(here, at, there, place), place - at
    if found is None:
        return None
    change, rows = found, (here.rows[at], there.rows[place])

    def is_same(n: int) -> bool:
        m = n + offset
        return (
            0 <= m < len(there.lines)
            and (here.rows[n], there.rows[m]) == rows
            and change.shift(there.bodies[m]) == here.bodies[n]
        )

    start = end = at
    while end < len(here.lines) and is_same(end):
        end += 1
    if end == at:
        return None
    while start > least and is_same(start - 1):
        start -= 1
    if here.lines[start:end] == there.lines[start + offset : end + offset]:
        return Run(start, end, start + offset, None)
    change = change._replace(first=here.numbers[start], format=here.formats.get(rows[0]))
    return Run(start, end, start + offset, change)


def _find_change(here: Lines, at: int, there: Lines, place: int) -> Change | None:
    """How the first line of both that is not blank is shifted; None if it differs in more than that."""
    pairs = zip(here.bodies[at:], there.bodies[place:], strict=False)
    ours, theirs = next((pair for pair in pairs if any(map(str.strip, pair))), ("", ""))
    longer, shorter = (ours, theirs) if len(ours) > len(theirs) else (theirs, ours)
    space = longer[: len(longer) - len(shorter)]
    if not longer.endswith(shorter) or space not in (" " * len(space), "\t" * len(space)):
        return None
    return Change(more=space) if longer is ours else Change(fewer=space)


def write_pointer(run: Run, source: Lines, name: str, *, is_stale: bool) -> str:
    """The sentence for a run of lines that stand in a source of this name."""
    start, end, change = run.source, run.source_end, run.change
    first, last, printed = start + 1, end, ""
    if source.numbers[start] and source.numbers.count(source.numbers[start]) == 1:
        first, last, printed = source.numbers[start], source.numbers[end - 1], "numbered "
    begins, ends = _ends(source, start, end)
    words = [
        f"[These {end - start} lines are, character for character, lines {printed}{first} to {last} "
        f'of {name}, above: from "{begins}" to "{ends}".'
    ]
    if change is not None and change.format is not None:
        number = orjson.dumps(change.format.write(change.first)).decode()
        words.append(f"Here they are numbered as in {number}.")
    elif change is not None and source.numbers[start]:
        words.append("Here they have no line numbers.")
    if change is not None and (space := change.more or change.fewer):
        sign, unit = "more" if change.more else "fewer", "tabs" if "\t" in space else "spaces"
        words.append(f"Here they are indented by {len(space)} {sign} {unit}.")
    if is_stale:
        words.append("The file was edited since; these lines were not.")
    words.append("Nothing was deleted; read them there.]")
    return " ".join(words)


def find_pointers(lines: Sequence[str]) -> list[tuple[int, re.Match[str]]]:
    """The lines of a text that read like pointers."""
    return [
        (at, found)
        for at, line in enumerate(lines)
        if line.startswith("[") and (found := _POINTER.fullmatch(line)) is not None
    ]


def resolve(pointer: re.Match[str], source: Lines) -> list[str] | None:
    """The lines that a pointer stands for, in the source that it names; None if it does not fit."""
    first, last, size = int(pointer["first"]), int(pointer["last"]), int(pointer["count"])
    start = first - 1
    if pointer["printed"]:
        start = source.numbers.index(first) if source.numbers.count(first) == 1 else -1
    end = start + size
    if size < MIN_LINES or last - first != size - 1 or not 0 <= start < end <= len(source.lines):
        return None
    if len(set(source.rows[start:end])) != 1 or _ends(source, start, end) != (pointer["begins"], pointer["ends"]):  # fmt: skip
        return None
    if not (pointer["number"] or pointer["bare"] or pointer["shift"]):
        return source.lines[start:end]
    change = _read_change(pointer)
    return None if change is None else change.apply(source.bodies[start:end])


def _read_change(pointer: re.Match[str]) -> Change | None:
    space = ("\t" if pointer["unit"] == "tabs" else " ") * int(pointer["shift"] or 0)
    change = Change(more=space) if pointer["sign"] == "more" else Change(fewer=space)
    if not pointer["number"]:
        return change
    try:
        found = _NUMBER.fullmatch(orjson.loads(pointer["number"]))
    except orjson.JSONDecodeError:
        return None
    if found is None:
        return None
    return change._replace(first=int(found[2]), format=Numbers(len(found[1] + found[2]), found[3]))


def _ends(source: Lines, start: int, end: int) -> tuple[str, str]:
    """How the first and the last line of a run that are not blank begin."""
    said = [body for body in source.bodies[start:end] if body.strip()] or [""]
    first, last = (clip(body, QUOTED).replace('"', "'") for body in (said[0], said[-1]))
    return first, last
