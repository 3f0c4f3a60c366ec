"""Storage: where gateways share ready indexes, a folder or a bucket of an S3-compatible service (bucket.py).

Both keep files under keys such as `collection/version/name`. A file is written whole or not at all, and nothing is
locked: a network folder may not have locks, and a bucket has none.
"""

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

_BLOCK = 1 << 20  # bytes copied at a time


class StoredFile(NamedTuple):
    """One file of a storage, and when it was written, in seconds since 1970."""

    key: str
    written: float


class SharedStorage(Protocol):
    """Files that all gateways of a store reach. What goes wrong is an OSError or a StoreError."""

    def list_files(self, folder: str) -> list[StoredFile]:
        """Every file whose key begins with `folder/`."""

    def download(self, key: str, target: Path) -> None:
        """Copy a file of the storage to a path of this machine."""

    def upload(self, source: Path, key: str) -> None:
        """Copy a file of this machine into the storage."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete files; one that is gone already is not an error."""


class SharedFolder:
    """A folder that is mounted on all machines. Only its owner may read what is written to it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    def list_files(self, folder: str) -> list[StoredFile]:
        """Every file below a folder; none if it is not there."""
        self._require_root()
        found = []
        for path in (self._root / folder).rglob("*"):
            with suppress(FileNotFoundError):  # another process deleted it
                if path.is_file():
                    key = path.relative_to(self._root).as_posix()
                    found.append(StoredFile(key, path.stat().st_mtime))
        return found

    def download(self, key: str, target: Path) -> None:
        """Copy a file out of the folder."""
        _copy(self._root / key, target)

    def upload(self, source: Path, key: str) -> None:
        """Copy a file into the folder, under a temporary name until it is whole."""
        self._require_root()
        target = self._root / key
        for folder in reversed([target.parent, *target.parent.parents]):
            if folder.is_relative_to(self._root):
                folder.mkdir(mode=0o700, exist_ok=True)
        temporary = target.with_name(f"{uuid4().hex}.tmp")
        try:
            _copy(source, temporary)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def delete(self, keys: Sequence[str]) -> None:
        """Delete files, and folders that are empty then."""
        for key in keys:
            (self._root / key).unlink(missing_ok=True)
        for folder in {(self._root / key).parent for key in keys}:
            with suppress(OSError):  # another gateway is writing there
                folder.rmdir()

    def _require_root(self) -> None:
        """Refuse to go on if the shared folder is not mounted: nothing is made in its place."""
        if not self._root.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the shared folder is not there", str(self._root.parent))  # fmt: skip


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("wb") as write:
        while block := read.read(_BLOCK):
            write.write(block)
        write.flush()
        os.fsync(write.fileno())
