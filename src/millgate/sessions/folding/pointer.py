"""Pointer: the sentence that stands in place of lines which the window holds already.

    [These 54 lines are, character for character, lines 12 to 65 of the result of your call Read(/src/a.py), call
    toolu_01A, above: from "def f(x):" to "return y". Nothing was deleted; read them there.]

It is one line of plain English, and all of it can be read back: `resolve` finds the one place that fits. What differs
from that place is said in words: other line numbers, or a shift of the indentation.

A tool may return text that reads like a pointer. If it would be read back, one more space is put behind its bracket,
and taken away again when the conversation is expanded.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from millgate.circles.finder import clip
from millgate.sessions.folding.lines import Change, Lines, Numbers, Run, Shift, number_lines

MIN_LINES = 20  # shorter runs stay: a pointer takes as much attention as it saves
QUOTED = 40  # characters of the first and the last line that are quoted
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
_PREFIX = re.compile(r"( {0,12})([1-9][0-9]{0,6})(\D{1,2})")


class Pointer(NamedTuple):
    """A pointer as it is read back."""

    spaces: int
    """Spaces behind the bracket: one more than the text had that only reads like a pointer."""
    size: int
    is_printed: bool
    """Whether its line numbers are those that the tool printed; else the lines are counted."""
    first: int
    last: int
    name: str
    begins: str
    ends: str
    change: Change


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
    if not change.is_verbatim and change.format is not None:
        words.append(f"Here they are numbered as in {_quote(change.format.write(change.first))}.")
    elif not change.is_verbatim and source.numbers[start]:
        words.append("Here they have no line numbers.")
    if change.shift.sign:
        space = change.shift.space
        more, unit = "more" if change.shift.sign == "+" else "fewer", "tabs" if "\t" in space else "spaces"  # fmt: skip
        words.append(f"Here they are indented by {len(space)} {more} {unit}.")
    if is_stale:
        words.append("The file was edited since; these lines were not.")
    words.append("Nothing was deleted; read them there.]")
    return " ".join(words)


def read_pointer(line: str) -> Pointer | None:
    """A line as a pointer; None if it is none."""
    if not line.startswith("[") or (found := _POINTER.fullmatch(line)) is None:
        return None
    change = Change()
    if found["number"] or found["bare"] or found["shift"]:
        format, number = None, 0
        if found["number"]:
            prefix = _PREFIX.fullmatch(_unquote(found["number"]))
            if prefix is None:
                return None
            format, number = Numbers(len(prefix[1]) + len(prefix[2]), prefix[3]), int(prefix[2])
        unit = "\t" if found["unit"] == "tabs" else " "
        signs = {"more": "+", "fewer": "-"}
        shift = Shift(signs[found["sign"]], unit * int(found["shift"])) if found["shift"] else Shift()  # fmt: skip
        change = Change(number, format, shift, is_verbatim=False)
    return Pointer(
        len(found["spaces"]),
        int(found["count"]),
        bool(found["printed"]),
        int(found["first"]),
        int(found["last"]),
        found["name"],
        found["begins"],
        found["ends"],
        change,
    )


def resolve(pointer: Pointer, source: Lines) -> list[str] | None:
    """The lines that a pointer stands for, in the source that it names; None if it does not fit."""
    if pointer.is_printed:
        if source.numbers.count(pointer.first) != 1:
            return None
        start = source.numbers.index(pointer.first)
    else:
        start = pointer.first - 1
    end = start + pointer.size
    if pointer.size < MIN_LINES or pointer.last - pointer.first != pointer.size - 1:
        return None
    if not 0 <= start < end <= len(source):
        return None
    if len(set(source.rows[start:end])) != 1 or _ends(source, start, end) != (pointer.begins, pointer.ends):  # fmt: skip
        return None
    return pointer.change.apply(source, start, end)


def _ends(source: Lines, start: int, end: int) -> tuple[str, str]:
    """How the first and the last line of a run that are not blank begin."""
    bodies = source.bodies
    first = next((bodies[at] for at in range(start, end) if bodies[at].strip()), "")
    last = next((bodies[at] for at in range(end - 1, start - 1, -1) if bodies[at].strip()), "")
    return _words(first), _words(last)


def _words(body: str) -> str:
    return clip(body, QUOTED).replace('"', "'")


def _quote(text: str) -> str:
    return orjson.dumps(text).decode()


def _unquote(text: str) -> str:
    try:
        return str(orjson.loads(text))
    except orjson.JSONDecodeError:
        return ""


def read_shown(lines: list[str]) -> Lines:
    """Lines as the model sees them. One that reads like a pointer belongs to no run: nothing points to a pointer."""
    read = number_lines(lines)
    for at, _ in find_pointers(lines):
        read.rows[at] = -1 - at
    return read


def find_pointers(lines: Sequence[str]) -> list[tuple[int, Pointer]]:
    """The lines of a text that read like pointers."""
    return [
        (at, found)
        for at, line in enumerate(lines)
        if line.startswith("[") and (found := read_pointer(line)) is not None
    ]
