"""Ignore: which files of a folder are left out, by `.gitignore` files and by patterns of the caller.

Patterns are those of git. A `.gitignore` holds for its own folder and everything below; those of the folders above, up
to the root of the repository, hold too. Of several that speak of a file the deepest decides. The caller's patterns go
before all.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from millgate.errors import InputError
from millgate.ingest.ignore_patterns import Pattern, parse_pattern

_FILE = ".gitignore"
_MOST_CHARS = 1_000_000  # of one file: tens of thousands of patterns


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one folder."""

    folder: Path
    patterns: tuple[Pattern, ...]

    def verdict(self, path: Path, *, is_folder: bool) -> bool | None:
        """Whether a path is left out; None if no pattern matches it."""
        name = path.relative_to(self.folder).as_posix()
        for pattern in reversed(self.patterns):  # the last that matches decides
            if pattern.matches(name, is_folder=is_folder):
                return pattern.leaves_out
        return None


@dataclass(frozen=True, slots=True)
class Ignore:
    """What holds in one folder: the rules of the folders above it first, its own last."""

    excluded: tuple[_Rules, ...] = ()
    rules: tuple[_Rules, ...] = ()
    gitignore: bool = True

    @classmethod
    def above(cls, folder: Path, exclude: Iterable[str], *, gitignore: bool) -> Self:
        """What holds for a folder that was named, before its own `.gitignore` is read.

        A folder that is ignored itself and still named is wanted: no rule from above holds for it.
        """
        excluded = (_Rules(folder, tuple(_parse_given(exclude))),)
        empty = cls(excluded, gitignore=gitignore)
        repository = _repository(folder) if gitignore else None
        if repository is None:
            return empty
        found = cls(gitignore=gitignore)
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
        try:
            with file.open(encoding="utf-8-sig", errors="replace") as source:
                lines = source.read(_MOST_CHARS).split("\n")
        except OSError:  # one that cannot be read says nothing
            return self
        rules = _Rules(folder, tuple(_readable(lines)))
        return type(self)(self.excluded, (*self.rules, rules), self.gitignore)

    def leaves_out(self, path: Path, *, is_folder: bool) -> bool:
        """Whether a file or folder is left out."""
        for rules in (*self.excluded, *reversed(self.rules)):
            verdict = rules.verdict(path, is_folder=is_folder)
            if verdict is not None:
                return verdict
        return False


def _readable(lines: Iterable[str]) -> Iterator[Pattern]:
    """The patterns of a file. One that cannot be read matches nothing, as in git."""
    for line in lines:
        with suppress(ValueError):
            if pattern := parse_pattern(line):
                yield pattern


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
