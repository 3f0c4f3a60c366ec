"""Lines: a text as lines, each with the number that a tool printed before it, and how two runs of lines compare.

Tools print the same file with and without line numbers, from another number on, or indented by a block around it. So a
line is compared without its number and without a shift of its indentation, and `Change` says what makes one run from
the other, exactly.

A number counts as printed only if lines before or behind it go on counting. A line of a log that begins with a time, or
of a table that begins with an amount, is text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# How tools end a line's number: Claude Code's arrow, `cat -n` and `nl`, `grep -n` and its context, and bars.
_NUMBER = re.compile(r"( {0,12})([1-9][0-9]{0,6})(→|\t|: ?|-|\| ?|│ ?)")
MIN_COUNTED = 3  # lines that count on in a row: two may do so by chance


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

    def __len__(self) -> int:
        return len(self.lines)


def number_lines(lines: list[str]) -> Lines:
    """Lines with the numbers that a tool printed."""
    read = Lines(lines, list(lines), [0] * len(lines), [0] * len(lines))
    match, row, at = _NUMBER.match, 0, 0
    while at < len(lines):
        found = match(lines[at])
        end = at + 1
        if found is not None:
            end = _count_on(lines, at, found)
            if end - at >= MIN_COUNTED:
                row += 1
                first, format = int(found[2]), _format(found)
                read.formats[row] = format
                for place in range(at, end):
                    number = first + place - at
                    read.bodies[place] = lines[place][len(format.write(number)) :]
                    read.numbers[place], read.rows[place] = number, row
                row += 1
                at = end
                continue
            end = at + 1
        read.rows[at] = row
        at = end
    return read


def _format(found: re.Match[str]) -> Numbers:
    return Numbers(len(found[1]) + len(found[2]), found[3])


def _count_on(lines: Sequence[str], at: int, found: re.Match[str]) -> int:
    """Where the sequence of numbers ends that begins at a line."""
    format, number = _format(found), int(found[2])
    end = at + 1
    while end < len(lines) and lines[end].startswith(format.write(number + end - at)):
        end += 1
    return end


class Shift(NamedTuple):
    """White space that lines have more (`+`) or less (`-`) than others at their beginning."""

    sign: str = ""
    space: str = ""

    def apply(self, body: str) -> str | None:
        """The line with the shift; None if it cannot be shifted so. Blank lines stay as they are."""
        if not self.sign or not body.strip():
            return body
        if self.sign == "+":
            return self.space + body
        return body[len(self.space) :] if body.startswith(self.space) else None


@dataclass(frozen=True, slots=True)
class Change:
    """What makes the lines of one place from those of another: other numbers, and a shift of the indentation."""

    first: int = 0
    """The number of the first line, 0 without numbers."""
    format: Numbers | None = None
    shift: Shift = Shift()  # noqa: RUF009  (a named tuple)
    is_verbatim: bool = field(default=True, kw_only=True)
    """Whether nothing changes, numbers included."""

    def apply(self, source: Lines, start: int, end: int) -> list[str] | None:
        """Lines `start` to `end` of a source as they stand at the other place; None if they cannot."""
        if self.is_verbatim:
            return list(source.lines[start:end])
        made: list[str] = []
        for at in range(start, end):
            body = self.shift.apply(source.bodies[at])
            if body is None:
                return None
            number = self.format.write(self.first + at - start) if self.format else ""
            made.append(number + body)
        return made


class Run(NamedTuple):
    """A run of whole lines that stand at two places: `start` to `end` here, from `source` on there."""

    start: int
    end: int
    source: int
    change: Change

    @property
    def source_end(self) -> int:
        """Where it ends there."""
        return self.source + self.end - self.start


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two texts side by side: line n of the one beside line n + offset of the other."""

    here: Lines
    there: Lines
    offset: int
    shift: Shift
    rows: tuple[int, int]

    def is_same(self, n: int) -> bool:
        """Whether two lines are the same after the shift, and belong to the rows that are compared."""
        m = n + self.offset
        return (
            0 <= m < len(self.there)
            and (self.here.rows[n], self.there.rows[m]) == self.rows
            and self.shift.apply(self.there.bodies[m]) == self.here.bodies[n]
        )


def extend(here: Lines, at: int, there: Lines, place: int, least: int) -> Run | None:
    """The longest run around a pair of lines, which reaches back to `least` at most; None if the two differ."""
    shift = _find_shift(here, at, there, place)
    if shift is None:
        return None
    rows = here.rows[at], there.rows[place]
    pair = _Pair(here, there, place - at, shift, rows)
    start = end = at
    while end < len(here) and pair.is_same(end):
        end += 1
    if end == at:
        return None
    while start > least and pair.is_same(start - 1):
        start -= 1
    source = start + pair.offset
    is_verbatim = here.lines[start:end] == there.lines[source : source + end - start]
    change = Change() if is_verbatim else Change(here.numbers[start], here.formats.get(rows[0]), shift, is_verbatim=False)  # fmt: skip
    return Run(start, end, source, change)


def _find_shift(here: Lines, at: int, there: Lines, place: int) -> Shift | None:
    """How the first line of both that is not blank is shifted; None if it differs in more than that."""
    for ours, theirs in zip(here.bodies[at:], there.bodies[place:], strict=False):
        if ours.strip() or theirs.strip():
            return _shift_of(ours, theirs)
    return Shift()


def _shift_of(ours: str, theirs: str) -> Shift | None:
    if ours == theirs:
        return Shift()
    longer, shorter, sign = (ours, theirs, "+") if len(ours) > len(theirs) else (theirs, ours, "-")
    space = longer[: len(longer) - len(shorter)]
    if not longer.endswith(shorter) or space not in (" " * len(space), "\t" * len(space)):
        return None
    return Shift(sign, space)
