"""Folder: a collection's index on disk.

The manifest names the segment files, their dead chunks and the last change they hold. It is written last,
so whatever happens before leaves the former index whole. Its mark is known to the store, which tells an index of this
store and its history from every other. One process writes at a time (it holds `lock`);
any number may read: files never change, and one that was replaced under a reader is simply read anew.
Everything here is derived. Deleting the folder costs a rebuild and loses nothing.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from millgate.index.files import (
    CHECKED,
    DamagedIndex,
    check_by_name,
    load_vectors,
    make_folder,
    name_with_checksum,
    whole_file,
    write_whole,
)
from millgate.index.merging import load_segment, release_pages, save_segment
from millgate.index.segment import LiveSegment
from millgate.index.vectors import LARGE, NearestNeighbors, build_graph, has_usearch

FORMAT = 5
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a damaged or hostile file of an index may raise."""
_ROWS = 4_096  # embeddings that are written at a time
_TRIES = 5  # times a reader tries again when a writer deleted a file it was about to open


class OtherFormat(DamagedIndex):
    """The index is whole, and another release made it; the next request builds it again."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """The content of a manifest: which write it was, the last change seen, the segments, the kind of embeddings.

    `complete`: the end of the feed was reached; else the index was saved while it was being made.
    """

    mark: str
    seen: int
    lives: tuple[LiveSegment, ...] = ()
    kind: str = ""
    complete: bool = False

    @property
    def count(self) -> int:
        """How many chunks are alive."""
        return sum(len(live) - len(live.dead) for live in self.lives)


def new_mark() -> str:
    """A name for one write of an index, which no other write has."""
    return uuid4().hex


def folder_of(root: Path, tenant: str, collection: str) -> Path:
    """The folder of one collection: a digest, since names may hold anything."""
    return root / blake2b(f"{tenant}\0{collection}".encode(), digest_size=16).hexdigest()


def manifest_mark(folder: Path) -> str:
    """Which write the manifest comes from; empty when there is none."""
    try:
        return str(_manifest(folder)["mark"])
    except UNREADABLE:
        return ""


def manifest_seen(folder: Path) -> int | None:
    """The last change that the saved index has seen; None when there is none."""
    try:
        return int(_manifest(folder)["seen"])
    except UNREADABLE:
        return None


def read_state(folder: Path, *, verify: bool = False) -> IndexState | None:
    """The index in a folder, None if there is none; DamagedIndex if it cannot be used.

    With `verify` large files are read through and compared with their checksums too.
    """
    for left in reversed(range(_TRIES)):
        before = manifest_mark(folder)
        try:
            return _read_manifest(folder, verify=verify)
        except DamagedIndex:
            # a writer may have replaced both after we read the manifest and before we read the files
            if not left or manifest_mark(folder) == before:
                raise
    return None


def has_unchecked(folder: Path, state: IndexState) -> bool:
    """Whether a file of the index was too large to be compared with its checksum when it was opened."""
    names = [live.file for live in state.lives if live.file]
    with suppress(OSError):
        files = (path for name in names for path in folder.glob(f"{name}*"))
        return any(path.stat().st_size > CHECKED for path in files)
    return False


def _read_manifest(folder: Path, *, verify: bool) -> IndexState | None:
    try:
        manifest = _manifest(folder)
        if manifest["format"] != FORMAT:
            raise OtherFormat(f"the index has format {manifest['format']!r}, not {FORMAT}")
        mark, seen, kind, complete = (
            manifest[name] for name in ("mark", "seen", "kind", "complete")
        )
        if [type(v) for v in (mark, seen, kind, complete)] != [str, int, str, bool]:
            raise DamagedIndex("the index manifest holds values of another type")
        lives = tuple(
            _load_live(folder, entry, _dimension_of(kind), verify=verify)
            for entry in manifest["segments"]
        )
        return IndexState(mark, seen, lives, kind, complete)
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        raise DamagedIndex(f"the index manifest cannot be read: {error}") from error


def _manifest(folder: Path) -> Any:  # noqa: ANN401  (whatever the file holds)
    return json.loads((folder / "manifest.json").read_bytes())


def _dimension_of(kind: str) -> int:
    """How many numbers the embeddings of a kind have (vectors.py); -1 if it does not say."""
    number = kind.rpartition("/")[2]
    return int(number) if number.isdecimal() else -1


def _load_live(folder: Path, entry: dict[str, str], dimension: int, *, verify: bool) -> LiveSegment:
    for name in entry.values():
        # files of this folder alone: a manifest may come with a store that another user made
        if name != Path(name).name:
            raise DamagedIndex(f"the index manifest names {name!r}, which is not beside it")
    segment = load_segment(folder / entry["file"], verify=verify or None)
    dead = np.zeros(0, np.int64)
    if entry["dead"]:
        try:
            dead = np.frombuffer((folder / entry["dead"]).read_bytes(), np.int64)
        except (OSError, ValueError) as error:
            raise DamagedIndex(f"{entry['dead']} cannot be read: {error}") from error
        if _digest(dead) not in entry["dead"] or (
            len(dead) and not 0 <= dead.min() <= dead.max() < len(segment)
        ):
            raise DamagedIndex(f"{entry['dead']} does not match its checksum")
    vectors = None
    if entry["vectors"]:
        stored = folder / entry["vectors"]
        vectors = load_vectors(stored, len(segment), dimension, verify=verify or None)
    graph_file = folder / entry["near"] if entry["near"] and has_usearch() else None
    if graph_file:
        check_by_name(graph_file, verify=verify or None)
    neighbors = NearestNeighbors(graph_file) if graph_file else None
    return LiveSegment(segment, dead, entry["file"], vectors, neighbors, graph_file)


def _digest(dead: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> str:
    return blake2b(dead.tobytes(), digest_size=8).hexdigest()


def write_state(
    folder: Path, state: IndexState, mark: str, runs: Sequence[Sequence[LiveSegment]]
) -> IndexState:
    """Write what is not on disk yet, then the manifest, then delete files that it no longer names.

    `runs` are the segments of the state; those of one run become one.
    """
    kept, entries = [], []
    for run in runs:
        name = (run[0].file if len(run) == 1 else "") or f"{uuid4().hex}.seg"
        live = run[0] if name == run[0].file else _save_run(folder, name, run)
        dead = f"{name}.{_digest(live.dead)}.dead" if len(live.dead) else ""
        if dead and not (folder / dead).exists():
            write_whole(folder / dead, live.dead.astype(np.int64).tobytes())
        # one that is gone is named all the same, so that the next reader notices
        stored = _find(folder, name, "vectors") or f"{name}.vectors"
        vectors = stored if live.vectors is not None else ""
        graph = _find(folder, name, "near")
        entries.append({"file": name, "dead": dead, "vectors": vectors, "near": graph})
        neighbors = live.neighbors or (NearestNeighbors(folder / graph) if graph else None)
        graph_file = folder / graph if graph else None
        kept.append(replace(live, file=name, neighbors=neighbors, graph_file=graph_file))
    manifest = {
        "format": FORMAT,
        "mark": mark,
        "seen": state.seen,
        "kind": state.kind,
        "complete": state.complete,
        "segments": entries,
    }
    write_whole(folder / "manifest.json", json.dumps(manifest).encode())
    _delete_unnamed(folder, {"manifest.json", "lock", *(n for e in entries for n in e.values())})
    return replace(state, mark=mark, lives=tuple(kept))


def _find(folder: Path, name: str, ending: str) -> str:
    """The file of that ending that belongs to a segment; empty if there is none."""
    return next((path.name for path in folder.glob(f"{name}.*.{ending}")), "")


def _save_run(folder: Path, name: str, run: Sequence[LiveSegment]) -> LiveSegment:
    """Save some segments and their embeddings as one, which is read from its files: so no memory holds it twice."""
    first, file, stored = run[0], folder / name, folder / f"{name}.vectors"
    save_segment([(live.segment, live.alive) for live in run], file)
    saved = LiveSegment(load_segment(file, verify=False))
    rows = [live.vectors for live in run if live.vectors is not None]
    if len(rows) < len(run):
        return saved
    with whole_file(stored) as out:
        for mine, live in zip(rows, run, strict=True):
            for at in range(0, len(mine), _ROWS):
                out.write(mine[at : at + _ROWS][live.alive[at : at + _ROWS]].tobytes())
                release_pages(mine)
    vectors = load_vectors(name_with_checksum(stored), len(saved), verify=False)
    if len(saved) >= LARGE and has_usearch():
        graph, made = None if len(first.dead) else first.graph_file, folder / f"{name}.near"
        build_graph(vectors, made, first_rows=graph)
        name_with_checksum(made)
    return replace(saved, vectors=vectors)


def delete_index(folder: Path) -> None:
    """Delete an index. The manifest goes first, so that nothing is left that names files which are gone."""
    (folder / "manifest.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _delete_unnamed(folder: Path, named: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in named:
            # Windows keeps files that a reader has mapped; the next write deletes them
            with suppress(OSError):
                path.unlink()


@contextmanager
def write_lock(folder: Path) -> Iterator[bool]:
    """Hold the write lock; False, without waiting, when another process holds it."""
    make_folder(folder)
    with (folder / "lock").open("a+b") as held:
        if not _try_lock(held.fileno()):
            yield False
            return
        try:
            yield True
        finally:
            # closing is not enough: a child forked just now may hold the file open too
            _unlock(held.fileno())


def _try_lock(handle: int) -> bool:
    """Lock an open file; False if another process holds the lock."""
    try:
        if os.name == "nt":
            import msvcrt  # noqa: PLC0415 - one platform only

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl  # noqa: PLC0415 - the other platforms

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(handle: int) -> None:
    if os.name == "nt":
        import msvcrt  # noqa: PLC0415 - one platform only

        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl  # noqa: PLC0415 - the other platforms

        fcntl.flock(handle, fcntl.LOCK_UN)
