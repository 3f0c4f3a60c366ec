"""Generated: files that a program made from others, which would stand in an index a second time, or say nothing.

A lock file lists versions and hashes; a minified bundle and a search index repeat what was written elsewhere. They are
left out of folders with this reason; a file that is named itself is read all the same.
"""

from pathlib import Path

_LOCKS = frozenset(
    {
        "bun.lock", "cargo.lock", "composer.lock", "flake.lock", "gemfile.lock", "go.sum", "mix.lock",
        "npm-shrinkwrap.json", "package-lock.json", "packages.lock.json", "pdm.lock", "pipfile.lock", "pnpm-lock.yaml",
        "podfile.lock", "poetry.lock", "pubspec.lock", "uv.lock", "yarn.lock",
    }
)  # fmt: skip
_SEARCH = frozenset({"searchindex.js", "search_index.js", "search_index.json", "lunr_index.json"})
_PACKED = (".min.js", ".min.mjs", ".min.css", ".bundle.js", ".js.map", ".css.map", ".min.js.map")
_SCRIPTS = frozenset({".js", ".mjs", ".cjs", ".css"})
_HEAD = 16_384  # bytes of a script that are looked at
# Mean characters of a line from which a script is minified. Of 1 000 scripts that distributions and packages carry, the
# longest mean of a written one was 103, the shortest of a minified one 420.
_LINE = 250
_SPHINX = frozenset({"searchindex.js", "objects.inv"})


def describe_generated(path: Path) -> str:
    """Which kind of generated file this is; empty if it is none."""
    name = path.name.lower()
    if name in _LOCKS:
        return "a lock file"
    if name in _SEARCH:
        return "the search index of a site"
    if name.endswith(_PACKED) or (path.suffix.lower() in _SCRIPTS and _is_minified(path)):
        return "a minified script or style"
    return ""


def describe_copies(folder: Path) -> str:
    """Which kind of copies a folder holds; empty if it holds none. Sphinx keeps the sources beside its pages."""
    if folder.name == "_sources" and any((folder.parent / name).is_file() for name in _SPHINX):
        return "the sources of the pages beside it"
    return ""


def _is_minified(path: Path) -> bool:
    try:
        with path.open("rb") as opened:
            head = opened.read(_HEAD)
    except OSError:  # the reader says what is wrong with it
        return False
    return len(head) > _LINE * (head.count(b"\n") + 1)
