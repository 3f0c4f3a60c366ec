"""Project: what the folder that a caller works in belongs to.

It is named by the nearest folder, from the given one upward, that holds a repository or a project file. A path that is
not on this machine, or belongs to no project, is named by its last folder, which is all that is known of it.
"""

from pathlib import Path, PurePath, PureWindowsPath

MARKERS = (
    ".git", ".hg", ".svn", ".jj", "pyproject.toml", "setup.py", "package.json", "deno.json", "Cargo.toml", "go.mod",
    "pom.xml", "build.gradle", "build.gradle.kts", "Gemfile", "composer.json", "mix.exs", "pubspec.yaml", "Package.swift",
    "WORKSPACE", "MODULE.bazel", "flake.nix",
)  # fmt: skip


def project_of(cwd: str) -> str:
    """The name of the project that a folder belongs to; "" for no folder."""
    path: PurePath = PureWindowsPath(cwd) if "\\" in cwd else PurePath(cwd)
    if not path.is_absolute() or "\0" in cwd:
        return path.name
    for folder in (path, *path.parents):
        if folder.name and _is_project(folder):
            return folder.name
    return path.name


def _is_project(folder: PurePath) -> bool:
    try:
        return any(Path(folder, marker).exists() for marker in MARKERS)
    except OSError:  # not to be read, or too long to be a path
        return False
