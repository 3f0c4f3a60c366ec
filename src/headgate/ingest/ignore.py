"""Ignore: which files of a folder are left out, by `.gitignore` files and by patterns of the caller.

Patterns are those of git. A `.gitignore` holds for its own folder and everything below; those of the folders above, up
to the root of the repository, hold too. Of several that speak of a file the deepest decides. The caller's patterns go
before all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headgate.errors import InputError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_FILE = ".gitignore"
_MOST_CHARS = 1_000_000  # of one file: tens of thousands of patterns


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one folder."""

    folder: Path
    spec: "GitIgnoreSpec"

    def verdict(self, path: Path, *, is_folder: bool) -> bool | None:
        """Whether a path is left out; None where the patterns do not speak of it."""
        name = path.relative_to(self.folder).as_posix()
        return self.spec.check_file(f"{name}/" if is_folder else name).include


@dataclass(frozen=True, slots=True)
class Ignore:
    """What holds in one folder: the rules of the folders above it first, its own last."""

    excluded: tuple[_Rules, ...] = ()
    rules: tuple[_Rules, ...] = ()
    gitignore: bool = True

    @classmethod
    def above(cls, folder: Path, exclude: Iterable[str], *, gitignore: bool) -> Self:
        """What holds for a folder that was named, before its own `.gitignore` is read.

        Where the folder itself is ignored, whoever names it wants it all the same: no rule from above holds.
        """
        patterns = list(exclude)
        excluded = (_Rules(folder, _parse(patterns, "the pattern")),) if patterns else ()
        empty = cls(excluded, gitignore=gitignore)
        repository = _repository(folder) if gitignore else None
        if repository is None:
            return empty
        found = empty
        for part in reversed(folder.parents):
            if part.is_relative_to(repository):
                found = found.below(part)
        ignored = cls(rules=found.rules).leaves_out(folder, is_folder=True)
        return empty if ignored else found

    def below(self, folder: Path) -> Self:
        """The same with the `.gitignore` of a folder, where it has one."""
        file = folder / _FILE
        if not self.gitignore or not file.is_file():
            return self
        try:
            with file.open(encoding="utf-8", errors="replace") as source:
                lines = source.read(_MOST_CHARS).splitlines()
        except OSError:  # a file that cannot be read says nothing
            return self
        return type(self)(
            self.excluded, (*self.rules, _Rules(folder, _parse(lines, str(file)))), self.gitignore
        )

    def leaves_out(self, path: Path, *, is_folder: bool) -> bool:
        """Whether a file or folder is left out."""
        for rules in (*self.excluded, *reversed(self.rules)):
            verdict = rules.verdict(path, is_folder=is_folder)
            if verdict is not None:
                return verdict
        return False


def _parse(lines: Iterable[str], where: str) -> "GitIgnoreSpec":
    from headgate.ingest.ignore_patterns import parse_patterns  # noqa: PLC0415  (most commands need none)

    try:
        return parse_patterns(lines)
    except ValueError as error:
        raise InputError(f"{where} cannot be read: {error}", hint="patterns are those of .gitignore") from error  # fmt: skip


def _repository(folder: Path) -> Path | None:
    """The root of the repository that contains a folder, if one does."""
    return next((part for part in (folder, *folder.parents) if (part / ".git").exists()), None)
