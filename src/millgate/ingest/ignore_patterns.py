"""Ignore patterns: those of git, each as a regular expression that matches in time that grows with the path.

A `.gitignore` may come from a stranger, and a pattern of many stars, as `*a*a*a*a*b`, must not try every way of sharing
a name among them. A star that another one follows in the same name need never give anything back:
the next takes whatever is left. The same holds for `**` and folders. So each of them is an atomic group.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from millgate.types.lengths import FOLDER_CHARS

_STAR = "*"
_SLASH = "/"
_ONE = "[^/]"  # any character of a name
_FOLDERS = "(?:[^/]++/)*"

_NAMED = re.compile(r"\[:([^]]*):\]")
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-\/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a `.gitignore`."""

    expression: re.Pattern[str]
    leaves_out: bool  # or takes in again, if the line begins with "!"
    folders_only: bool
    anchored: bool  # to the folder of its file; else it speaks of names at any depth

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether the pattern speaks of a path, which begins at the folder of its file."""
        if self.folders_only and not is_folder:
            return False
        name = path if self.anchored else path.rpartition("/")[2]
        return self.expression.fullmatch(name) is not None


def parse_pattern(line: str) -> Pattern | None:
    """The pattern in a line; None if it has none. ValueError if git would find nothing by it."""
    text = _without_spaces(line)
    if not text or text.startswith("#"):
        return None
    if len(text) > FOLDER_CHARS:
        raise ValueError("it is longer than any path")
    leaves_out = not text.startswith("!")
    text = text if leaves_out else text[1:]
    folders_only = text.endswith("/")
    text = text[:-1] if folders_only else text
    anchored = "/" in text
    expression = re.compile(_expression(text.removeprefix("/")), re.DOTALL)
    return Pattern(expression, leaves_out, folders_only, anchored)


def _without_spaces(line: str) -> str:
    """The line without the spaces at its end that no backslash keeps."""
    kept = line.rstrip(" ")
    escapes = len(kept) - len(kept.rstrip("\\"))
    return line[: len(kept) + escapes % 2]


def _expression(text: str) -> str:
    """What a whole path or name must match."""
    names: list[list[str]] = [[]]
    for part in _parts(text):
        if part == _SLASH:
            names.append([])
        else:
            names[-1].append(part)
    groups: list[list[str]] = [[]]  # of names with no `**` between them
    for name in names:
        if len(name) > 1 and set(name) == {_STAR}:
            groups.append([])
        else:
            groups[-1].append(_name(name))
    first, *between = groups
    if not between:
        return "/".join(first)
    last = between.pop()
    closed = [f"(?>{_FOLDERS}?{'/'.join(group)}/)" for group in between if group]
    end = _FOLDERS + "/".join(last) if last else ".+"
    return "".join([*(f"{name}/" for name in first), *closed, end])


def _name(parts: list[str]) -> str:
    """What one name of the path must match."""
    first, *pieces = [
        "".join(piece) for star, piece in groupby(["", *parts], _STAR.__eq__) if not star
    ]
    # a star at the end takes the rest
    pieces = [*pieces, ""] if parts and parts[-1] == _STAR else pieces
    closed = [f"(?>{_ONE}*?{piece})" for piece in pieces[:-1]]
    return "".join([first, *closed, *(f"{_ONE}*{piece}" for piece in pieces[-1:])])


def _parts(text: str) -> Iterator[str]:
    """Stars, slashes, and an expression for each single character."""
    at = 0
    while at < len(text):
        if text[at] in "*/":
            yield text[at]
        elif text[at] == "?":
            yield _ONE
        elif text[at] == "[":
            expression, at = _read_class(text, at + 1)
            yield expression
        else:
            char, at = _read_char(text, at)
            yield char if char == _SLASH else re.escape(char)
        at += 1


def _read_char(text: str, at: int) -> tuple[str, int]:
    """The character at a place, and the place of its end: a backslash takes the next one as it is."""
    if text[at : at + 1] == "\\":
        at += 1
    if at >= len(text):
        raise ValueError("it ends too early")
    return text[at], at


def _read_class(text: str, at: int) -> tuple[str, int]:
    """A character out of brackets, which begin before a place; and the place where they end."""
    negated = text.startswith(("!", "^"), at)
    at += negated
    begin = at
    found: list[str] = []
    while at == begin or text[at : at + 1] != "]":
        named = _NAMED.match(text, at)
        if named:
            if named[1] not in _CLASSES:
                raise ValueError(f"there is no class {named[1]!r}")
            found.append(_CLASSES[named[1]])
            at = named.end()
            continue
        low, at = _read_char(text, at)
        high = low
        if text[at + 1 : at + 2] == "-" and text[at + 2 : at + 3] not in ("", "]"):
            high, at = _read_char(text, at + 2)
        # a range that runs backward is its first character
        found.append(f"{re.escape(low)}-{re.escape(high if low <= high else low)}")
        at += 1
    return f"(?!/)[{'^' * negated}{''.join(found)}]", at
