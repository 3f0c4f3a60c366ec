"""Ignore: which files of a folder are left out, by `.gitignore` files and by patterns of the caller.

Patterns are those of git, but for classes of characters by name (`[[:alpha:]]`). A `.gitignore` holds for its own
folder and everything below; those of the folders above, up to the root of the repository, hold too. Of several that
speak of a file the deepest decides. The caller's patterns go before all.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Self

from millgate.errors import InputError
from millgate.types.lengths import FOLDER_CHARS

_FILE = ".gitignore"
_MOST_CHARS = 1_000_000  # of one file: tens of thousands of patterns
_STAR = "*"
_SLASH = "/"
_ONE = "[^/]"  # any character of a name
_FOLDERS = "(?:[^/]++/)*"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a `.gitignore`, as a regular expression that matches in time that grows with the path.

    A `.gitignore` may come from a stranger, and a pattern of many stars, as `*a*a*a*a*b`, must not try every way of
    sharing a name among them. A star that another one follows in the same name need never give anything back: the next
    takes whatever is left. The same holds for `**` and folders. So each of them is an atomic group.
    """

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
        if text.startswith("[:", at):
            raise ValueError("classes of characters have no names here")
        low, at = _read_char(text, at)
        high = low
        if text[at + 1 : at + 2] == "-" and text[at + 2 : at + 3] not in ("", "]"):
            high, at = _read_char(text, at + 2)
        # a range that runs backward is its first character
        found.append(f"{re.escape(low)}-{re.escape(high if low <= high else low)}")
        at += 1
    return f"(?!/)[{'^' * negated}{''.join(found)}]", at


Rules = tuple[Path, tuple[Pattern, ...]]
"""A folder and the patterns that hold below it."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """What holds in one folder: the rules of the folders above it first, its own last."""

    excluded: tuple[Rules, ...] = ()
    rules: tuple[Rules, ...] = ()
    gitignore: bool = True

    @classmethod
    def above(cls, folder: Path, exclude: Iterable[str], *, gitignore: bool) -> Self:
        """What holds for a folder that was named, before its own `.gitignore` is read.

        A folder that is ignored itself and still named is wanted: no rule from above holds for it.
        """
        excluded = ((folder, tuple(_parse_given(exclude))),)
        empty, found = cls(excluded, gitignore=gitignore), cls(gitignore=gitignore)
        repository = _repository(folder) if gitignore else None
        if repository is None:
            return empty
        for part in (*reversed(folder.parents), folder):
            if found.leaves_out(part, is_folder=True):
                return empty
            if part != folder and part.is_relative_to(repository):
                found = found.below(part)
        return cls(excluded, found.rules, gitignore)

    def below(self, folder: Path) -> Self:
        """The same with the `.gitignore` of a folder, if it has one."""
        file = folder / _FILE
        if not (self.gitignore and file.is_file()):  # a pipe would be waited for
            return self
        patterns: list[Pattern] = []
        with (
            suppress(OSError),  # one that cannot be read says nothing
            file.open(encoding="utf-8-sig", errors="replace") as source,
        ):
            for line in source.read(_MOST_CHARS).split("\n"):
                with suppress(
                    ValueError
                ):  # a pattern that cannot be read matches nothing, as in git
                    patterns += filter(None, [parse_pattern(line)])
        return type(self)(self.excluded, (*self.rules, (folder, tuple(patterns))), self.gitignore)

    def leaves_out(self, path: Path, *, is_folder: bool) -> bool:
        """Whether a file or folder is left out."""
        for folder, patterns in (*self.excluded, *reversed(self.rules)):
            name = path.relative_to(folder).as_posix()
            for pattern in reversed(patterns):  # the last that matches decides
                if pattern.matches(name, is_folder=is_folder):
                    return pattern.leaves_out
        return False


def _parse_given(lines: Iterable[str]) -> Iterator[Pattern]:
    """The patterns of a caller, who hears of one that cannot be read."""
    for line in lines:
        try:
            pattern = parse_pattern(line)
        except ValueError as error:
            raise InputError(f"the pattern {line!r} cannot be read: {error}", hint="patterns are those of .gitignore") from error  # fmt: skip
        if pattern:
            yield pattern


def _repository(folder: Path) -> Path | None:
    """The root of the repository that contains a folder, if one does."""
    with suppress(OSError):  # a folder that may not be looked into
        return next((part for part in (folder, *folder.parents) if (part / ".git").exists()), None)
    return None
