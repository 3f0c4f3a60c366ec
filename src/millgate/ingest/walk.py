"""Walk: the files under the paths given, in a steady order.

The walk leaves out files that are hidden, installed, cached, named by `.gitignore` (ignore.py), generated or the
store's own, links to folders, and links to files outside the folder given. A document's id is its path below `root` if
it lies there, else its full path.

Generated files were made from others by a program. A lock file lists versions and hashes; a minified bundle and a
search index repeat what was written elsewhere. They are left out of folders with this reason; a file that is named
itself is read all the same.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from stat import S_ISREG

from millgate.errors import InputError, NotFound
from millgate.ingest.ignore import Ignore
from millgate.ingest.readers import SourceFile
from millgate.ingest.rows import Skip

_IGNORED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
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


def walk(
    paths: Iterable[str | Path],
    *,
    root: Path | None = None,
    exclude: Iterable[str] = (),
    gitignore: bool = True,
    store: Path | None = None,
) -> Iterator[SourceFile | Skip]:
    """Every file at or under the paths, once; what cannot be entered is skipped with its reason.

    `exclude` are patterns, as in a `.gitignore`, below each folder that is named; `gitignore` says whether such files
    are respected. `store` is a folder that is never entered. A file or folder that is named itself is always taken, and
    a folder without any file to take is skipped with its reason.
    """
    base = (root or Path.cwd()).resolve()
    own = store and _resolve(store)
    patterns = list(exclude)
    seen: set[str] = set()
    for given in paths:
        path = Path(given)
        if own and _resolve(path).is_relative_to(own):
            found: Iterable[SourceFile | Skip] = [Skip(str(path), "part of the store itself")]
        elif os.path.isdir(path):  # noqa: PTH112  (of what may not be looked at, `_entry` says why)
            ignore = Ignore.above(path.absolute(), patterns, gitignore=gitignore)
            found = _or_nothing(_files_under(path.absolute(), base, ignore, own), path)
        else:
            found = _entry(path, base)
        for one in found:
            id = one.id if isinstance(one, SourceFile) else one.what
            if id not in seen:
                seen.add(id)
                yield one


def check_paths(paths: Iterable[str | Path]) -> None:
    """Refuse a path at which there is nothing, and an empty one, which would be the current folder."""
    for given in paths:
        if not str(given):
            raise InputError(
                "a path is empty", hint="name a file or folder; the current one is '.'"
            )
        path = Path(given)
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"there is no file or folder {path}", hint="check the path") from error
        except OSError:
            continue  # the walk says why it cannot be read


def document_id(path: Path, base: Path) -> str:
    """The id of a document that lies at this path."""
    whole = path.absolute()
    head = f"{base.as_posix().rstrip('/')}/"
    if whole.as_posix().startswith(head) and ".." not in whole.parts:
        return whole.as_posix()[len(head) :]
    resolved = _resolve(whole)  # takes as long as all the rest of a walk
    if resolved.is_relative_to(base):
        return resolved.relative_to(base).as_posix()
    return (resolved if ".." in whole.parts else whole).as_posix()


def _files_under(
    folder: Path, base: Path, above: Ignore, store: Path | None
) -> Iterator[SourceFile | Skip]:
    failed: list[OSError] = []
    rules = {str(folder.parent): above}
    for here, folders, files in os.walk(folder, onerror=failed.append):
        place = Path(here)
        ignore = rules[here] = rules[str(place.parent)].below(place)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _IGNORED
            and not ignore.leaves_out(place / name, is_folder=True)
            and (store is None or _resolve(place / name) != store)
        )
        for name in [name for name in folders if describe_copies(place / name)]:
            folders.remove(name)
            yield Skip(document_id(place / name, base), describe_copies(place / name))
        for file in sorted(files):
            if not file.startswith(".") and not ignore.leaves_out(place / file, is_folder=False):
                yield from _entry_below(place / file, folder, base)
    for error in failed:
        yield Skip(document_id(Path(error.filename), base), f"cannot be entered: {error.strerror}")


def _or_nothing(found: Iterator[SourceFile | Skip], path: Path) -> Iterator[SourceFile | Skip]:
    """What was found in a folder, or a `Skip` that says why there is nothing."""
    nothing = Skip(str(path), "no files in it but hidden or ignored ones")
    yield next(found, nothing)
    yield from found


def _entry_below(path: Path, folder: Path, base: Path) -> Iterator[SourceFile | Skip]:
    """A file of a folder; a link out of it is skipped, or its maker would choose what is read."""
    if os.path.islink(path) and not _resolve(path).is_relative_to(_resolve(folder)):  # noqa: PTH114  (as above)
        yield Skip(document_id(path, base), "a link to a place outside the folder")
    elif kind := describe_generated(path):
        yield Skip(document_id(path, base), f"generated: {kind}; name the file itself to add it")
    else:
        yield from _entry(path, base)


def _resolve(path: Path) -> Path:
    """Where a path leads; a link that leads to itself stays as it is."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def _entry(path: Path, base: Path) -> Iterator[SourceFile | Skip]:
    id = document_id(path, base)
    try:
        status = path.stat()
    except OSError as error:
        yield Skip(id, f"cannot be read: {error.strerror}")
        return
    if not S_ISREG(status.st_mode):
        yield Skip(id, "not a regular file")
    elif (shown := id.encode(errors="replace").decode()) != id:
        yield Skip(shown, "a file name that is not text")
    else:
        yield SourceFile(path, id, status.st_size, status.st_mtime_ns)


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
