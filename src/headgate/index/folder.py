"""Folder: a collection's index on disk.

The manifest names the segment files, their dead chunks and the last change they hold. It is written last,
so whatever happens before leaves the former index whole. One process writes at a time (it holds `lock`);
any number may read: files never change, and one that was replaced under a reader is simply read anew.
Everything here is derived. Deleting the folder costs a rebuild and loses nothing.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

import numpy as np

from headgate.index import near
from headgate.index.files import Damaged, load, load_vectors, save, write
from headgate.index.live import Live

FORMAT = 2
_TRIES = 5  # times a reader looks again when a writer swept a file it was about to open


@dataclass(frozen=True, slots=True)
class State:
    """What a manifest says: which write it was, the last change seen, the segments, the kind of embeddings."""

    mark: str
    seen: int
    lives: tuple[Live, ...] = ()
    kind: str = ""


def folder_of(root: Path, tenant: str, collection: str) -> Path:
    """The folder of one collection: a digest, since names may hold anything."""
    return root / blake2b(f"{tenant}\0{collection}".encode(), digest_size=16).hexdigest()


def mark_of(folder: Path) -> str:
    """Which write the manifest comes from; empty when there is none."""
    try:
        return str(json.loads((folder / "manifest.json").read_bytes())["mark"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def read(folder: Path) -> State | None:
    """The index in a folder, None where there is none; Damaged when it cannot be used."""
    for left in reversed(range(_TRIES)):
        before = mark_of(folder)
        try:
            return _read(folder)
        except Damaged:
            # a writer may have replaced manifest and files between our reading one and the other
            if not left or mark_of(folder) == before:
                raise
    return None


def _read(folder: Path) -> State | None:
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        if manifest["format"] != FORMAT:
            raise Damaged(f"the index has format {manifest['format']}, not {FORMAT}")
        lives = tuple(_live(folder, entry) for entry in manifest["segments"])
        return State(manifest["mark"], manifest["seen"], lives, manifest["kind"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"the index manifest cannot be read: {error}") from error


def _live(folder: Path, entry: dict[str, str]) -> Live:
    segment = load(folder / entry["file"])
    dead = np.zeros(0, np.int64)
    if entry["dead"]:
        try:
            dead = np.frombuffer((folder / entry["dead"]).read_bytes(), np.int64)
        except (OSError, ValueError) as error:
            raise Damaged(f"{entry['dead']} cannot be read: {error}") from error
        if _digest(dead) not in entry["dead"] or (len(dead) and dead.max() >= len(segment)):
            raise Damaged(f"{entry['dead']} does not match its checksum")
    vectors = load_vectors(folder / entry["vectors"], len(segment)) if entry["vectors"] else None
    graph = entry["near"] and near.available()
    begun = folder / entry["near"] if graph else None
    close = near.Near(begun) if begun else None
    return Live(segment, dead, entry["file"], vectors, close, begun)


def _digest(dead: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> str:
    return blake2b(dead.tobytes(), digest_size=8).hexdigest()


def store(folder: Path, state: State) -> State:
    """Write what is not on disk yet, then the manifest, then sweep what it no longer names."""
    kept, entries = [], []
    for live in state.lives:
        name = live.file or f"{uuid4().hex}.seg"
        if not live.file:
            save(live.segment, folder / name)
            if live.vectors is not None:
                write(folder / f"{name}.vectors", live.vectors.tobytes())
                if len(live) >= near.LARGE and near.available():
                    near.build(live.vectors, folder / f"{name}.near", begun=live.begun)
        dead = f"{name}.{_digest(live.dead)}.dead" if len(live.dead) else ""
        if dead and not (folder / dead).exists():
            write(folder / dead, live.dead.astype(np.int64).tobytes())
        vectors = f"{name}.vectors" if live.vectors is not None else ""
        graph = f"{name}.near" if (folder / f"{name}.near").exists() else ""
        entries.append({"file": name, "dead": dead, "vectors": vectors, "near": graph})
        close = live.near or (near.Near(folder / graph) if graph else None)
        begun = folder / graph if graph else None
        kept.append(replace(live, file=name, near=close, begun=begun))
    mark = uuid4().hex
    manifest = {"format": FORMAT, "mark": mark, "seen": state.seen, "kind": state.kind}
    manifest["segments"] = entries
    write(folder / "manifest.json", json.dumps(manifest).encode())
    _sweep(folder, {"manifest.json", "lock", *(n for e in entries for n in e.values())})
    return State(mark, state.seen, tuple(kept), state.kind)


def _sweep(folder: Path, named: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in named:
            with suppress(
                OSError
            ):  # Windows keeps files that a reader has mapped; the next sweep takes them
                path.unlink()


@contextmanager
def writing(folder: Path) -> Iterator[bool]:
    """Whether this process may write now; another that writes keeps us out, and is not waited for."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+b") as held:
        if not _lock(held.fileno()):
            yield False
            return
        yield True


def _lock(handle: int) -> bool:
    """Lock an open file until it is closed; False when another process holds it."""
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
