"""Published: a collection's index in a folder that gateways share, so that a new gateway need not build it.

    ROOT / digest of tenant, collection, embeddings and format / SEEN-MARK / manifest.json, segments, checksums.json

A version is written under a temporary name and renamed when it is whole. It never changes after that, so nobody needs a
lock, which a network folder may not have. The store knows the mark of what was published, as of every index: a version of
another store, or of a history that a backup has undone, is left alone. Each file is compared with its checksum while
it is copied. What was copied is then loaded like an index of this machine, with the same doubts.
"""

import json
import os
import shutil
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from headgate.bugs import LOGGER
from headgate.errors import StoreError
from headgate.index.files import DamagedIndex, write_whole
from headgate.index.folder import FORMAT, folder_of, new_mark
from headgate.protocols import Store

LEAST = 1_000  # chunks; a smaller index is built about as fast as it is copied
_PART = 4  # a version is replaced by one that is newer by at least this part of its chunks
_BLOCK = 1 << 20  # bytes copied at a time
_ABANDONED_S = 86_400.0  # age from which an unfinished version belongs to a publisher that died
_TEMPORARY = ".tmp"


class PublishedIndex:
    """The published versions of one collection's index. `root` is the store's own folder in the shared storage."""

    def __init__(self, root: Path, store: Store, tenant: str, collection: str, kind: str) -> None:
        self._root, self._store = root, store
        self._tenant, self._collection = tenant, collection
        self._place = folder_of(root, tenant, f"{collection}\0{kind}\0{FORMAT}")

    def is_there(self) -> bool:
        """Whether a version of this store is published."""
        return self._newest() is not None

    def fetch(self, folder: Path) -> bool:
        """Copy the newest version into a folder without an index, whose write lock is held; whether it is there now."""
        incoming = folder.with_name(f"{folder.name}.incoming")
        try:
            shutil.rmtree(incoming, ignore_errors=True)
            found = self._newest()
            if found is None:
                return False
            incoming.mkdir(mode=0o700)
            names = _copy_checked(found, incoming)
            mark = new_mark()  # its own: the store forgets marks that were followed by two others
            self._store.mark_index(self._tenant, self._collection, mark, former="")
            manifest = json.loads((incoming / "manifest.json").read_bytes()) | {"mark": mark}
            for name in names:
                (incoming / name).replace(folder / name)
            write_whole(folder / "manifest.json", json.dumps(manifest).encode())
        except (OSError, StoreError, ValueError, TypeError) as error:
            LOGGER.warning("the index of %r is built, not copied: %s", self._collection, error)
            return False
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
        return True

    def publish(self, folder: Path, *, seen: int, count: int) -> bool:
        """Publish the index in a folder, whose write lock is held, unless that is hardly newer; whether it was."""
        try:
            former = self._newest()
            if count < LEAST or (former and seen - _read_seen(former) < max(1, count // _PART)):
                return False
            # where the shared storage is not mounted, nothing is made in its place
            if not self._root.parent.is_dir():
                raise FileNotFoundError(f"{self._root.parent} is not there")
            mark = new_mark()
            self._store.mark_index(
                self._tenant, self._collection, mark, former=_mark(former) if former else ""
            )
            self._write(folder, f"{seen:020d}-{mark}", mark)
            self._delete_all_but(seen)
        except (OSError, StoreError, ValueError) as error:
            LOGGER.warning("the index of %r is not published: %s", self._collection, error)
            return False
        return True

    def clear(self) -> None:
        """Delete what is published, so that the next gateway builds the index anew."""
        if self._place.exists():
            try:
                shutil.rmtree(self._place)
            except OSError as error:
                raise StoreError(
                    f"the published index in {self._place} cannot be deleted: {error.strerror}",
                    hint="delete it by hand, or leave segments out of the address of the store",
                ) from error

    def _newest(self) -> Path | None:
        """The version that has seen most, of those that the store knows."""
        versions = self._versions()
        known = set(self._store.index_marks(self._tenant, self._collection)) if versions else set()
        return max((v for v in versions if _mark(v) in known), key=_read_seen, default=None)

    def _versions(self) -> list[Path]:
        try:
            paths = list(self._place.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            LOGGER.warning("the shared folder %s cannot be read: %s", self._root, error)
            return []
        return [p for p in paths if p.suffix != _TEMPORARY and p.name.partition("-")[0].isdecimal()]

    def _write(self, folder: Path, name: str, mark: str) -> None:
        """Write a version beside the others and give it its name when it is whole."""
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._place / f"{uuid4().hex}{_TEMPORARY}"
        temporary.mkdir(mode=0o700)
        try:
            manifest = json.loads((folder / "manifest.json").read_bytes()) | {"mark": mark}
            write_whole(temporary / "manifest.json", json.dumps(manifest).encode())
            digests = {"manifest.json": _digest(temporary / "manifest.json")}
            for file in [n for entry in manifest["segments"] for n in entry.values() if n]:
                digests[file] = _copy(folder / file, temporary / file)
            write_whole(temporary / "checksums.json", json.dumps(digests).encode())
            temporary.rename(self._place / name)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    def _delete_all_but(self, seen: int) -> None:
        """Delete versions that have seen less, those of an undone history, and what dead publishers left."""
        known = self._store.index_marks(self._tenant, self._collection)
        for version in self._versions():
            if _read_seen(version) < seen or _mark(version) not in known:
                shutil.rmtree(version, ignore_errors=True)
        for left in self._place.glob(f"*{_TEMPORARY}"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _ABANDONED_S:
                    shutil.rmtree(left, ignore_errors=True)


def _read_seen(version: Path) -> int:
    return int(version.name.partition("-")[0])


def _mark(version: Path) -> str:
    return version.name.partition("-")[2]


def _copy_checked(version: Path, target: Path) -> list[str]:
    """Copy the files of a version; the names of all but its manifest. DamagedIndex where one is not as it was written."""
    digests: object = json.loads((version / "checksums.json").read_bytes())
    if not isinstance(digests, dict):
        raise DamagedIndex(f"{version / 'checksums.json'} lists no files")
    for name, digest in digests.items():
        if Path(name).name != name or _copy(version / name, target / name) != digest:
            raise DamagedIndex(f"{version / name} does not match its checksum")
    return [name for name in digests if name != "manifest.json"]


def _copy(source: Path, target: Path) -> str:
    """Copy a file; the checksum of what was read."""
    digest = blake2b(digest_size=16)
    with source.open("rb") as read, target.open("wb") as write:
        while block := read.read(_BLOCK):
            digest.update(block)
            write.write(block)
        write.flush()
        os.fsync(write.fileno())
    return digest.hexdigest()


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
