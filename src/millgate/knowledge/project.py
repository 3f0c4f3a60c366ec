"""Project: the name of the project that a folder belongs to."""

import os
from itertools import islice
from pathlib import PurePath, PureWindowsPath

from millgate.types.lengths import FOLDER_CHARS

MARKERS = (
    ".git", ".gate", ".svn", ".jj", "pyproject.toml", "setup.py", "package.json", "deno.json", "Cargo.toml", "go.mod",
    "pom.xml", "build.gradle", "build.gradle.kts", "Gemfile", "composer.json", "mix.exs", "pubspec.yaml", "Package.swift",
    "WORKSPACE", "MODULE.bazel", "flake.nix",
)  # fmt: skip

# Folders above one that are looked at for a marker: chosen; a project lies fewer below the root of its disk.
MOST_PARENTS = 64


def project_of(cwd: str) -> str:
    """The name of the project that a folder belongs to; "" for no folder.

    That is the nearest folder, from the given one upward, that holds a repository or a project file. A path that is not
    on this machine, or belongs to no project, is named by its last folder, which is all that is known of it.
    """
    path = _as_path(cwd)
    if not path.is_absolute() or "\0" in cwd or len(cwd) > FOLDER_CHARS:
        return path.name
    for folder in (path, *islice(path.parents, MOST_PARENTS)):
        if folder.name and _is_project(folder):
            return folder.name
    return path.name


def folder_name(cwd: str) -> str:
    """The last folder of a path, which names it to a reader who may not look at its disk."""
    return _as_path(cwd).name


def _as_path(cwd: str) -> PurePath:
    return PureWindowsPath(cwd) if "\\" in cwd else PurePath(cwd)


def _is_project(folder: PurePath) -> bool:
    place = str(folder)  # a Path for each marker would take a long path apart each time
    return any(os.path.exists(f"{place}/{marker}") for marker in MARKERS)  # noqa: PTH110
