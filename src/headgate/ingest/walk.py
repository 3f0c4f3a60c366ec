"""Walk: the files under the paths that were named, in a steady order.

Hidden files and folders, and those that hold what machines made, are passed by; links to folders are not followed.
A document's id is its path below `root` (by default the working folder) where it lies there, else its full path.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from headgate.errors import NotFound
from headgate.ingest.readers import Found
from headgate.ingest.rows import Skip

_PASSED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


def walk(paths: Iterable[str | Path], *, root: Path | None = None) -> Iterator[Found | Skip]:
    """Every file at or under the paths, once; what cannot be entered is skipped with its reason."""
    base = (root or Path.cwd()).resolve()
    seen: set[str] = set()
    for path in map(Path, paths):
        if not path.exists():
            raise NotFound(f"there is no file or folder {path}", hint="check the path")
        found = _under(path, base) if path.is_dir() else _file(path, base)
        for one in found:
            name = one.id if isinstance(one, Found) else one.what
            if name not in seen:
                seen.add(name)
                yield one


def name(path: Path, base: Path) -> str:
    """The id of a document that lies at this path."""
    whole = path.absolute()
    for form in (whole, whole.resolve()):
        if form.is_relative_to(base):
            return form.relative_to(base).as_posix()
    return whole.as_posix()


def _under(folder: Path, base: Path) -> Iterator[Found | Skip]:
    failed: list[OSError] = []
    for here, folders, files in os.walk(folder, onerror=failed.append):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _PASSED)
        for file in sorted(files):
            if not file.startswith("."):
                yield from _file(Path(here, file), base)
    for error in failed:
        yield Skip(name(Path(error.filename), base), f"cannot be entered: {error.strerror}")


def _file(path: Path, base: Path) -> Iterator[Found | Skip]:
    id = name(path, base)
    try:
        status = path.stat()
    except OSError as error:
        yield Skip(id, f"cannot be read: {error.strerror}")
        return
    if not path.is_file():
        yield Skip(id, "not a regular file")
    elif not _sayable(id):
        yield Skip(id.encode(errors="replace").decode(), "a file name that is no text")
    else:
        yield Found(path, id, status.st_size)


def _sayable(id: str) -> bool:
    try:
        id.encode()
    except UnicodeEncodeError:
        return False
    return True
