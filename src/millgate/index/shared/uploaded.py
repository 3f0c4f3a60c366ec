"""Uploaded: a collection's index in storage that gateways share, so that a new gateway need not build it.

    digest of tenant, collection, embeddings and format / SEEN-MARK / manifest.json, segments, checksums.json

The list of checksums is written last, and nothing changes after that: a version without it is not whole, and is not
seen. The store knows the mark of what was uploaded, as of every index: a version of another store, or of a history
that a backup has undone, is left alone. Each file is compared with its checksum once it is copied. What was copied is
then loaded like an index of this machine, with the same doubts.
"""

import json
import shutil
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from tempfile import TemporaryDirectory

from millgate.bugs import LOGGER
from millgate.errors import StoreError
from millgate.index.files import DamagedIndex, write_whole
from millgate.index.folder import FORMAT, folder_of, new_mark
from millgate.index.shared.storage import SharedStorage, StoredFile
from millgate.protocols import Store

LEAST = 1_000  # chunks; a smaller index is built about as fast as it is copied
_PART = 4  # a version is replaced by one that is newer by at least this part of its chunks
_ABANDONED_S = 86_400.0  # age from which an unfinished version belongs to a gateway that died
_MANIFEST, _CHECKSUMS = "manifest.json", "checksums.json"


@dataclass(frozen=True, slots=True)
class _Version:
    """What was uploaded at once: `folder` has the last change that it has seen, and its mark."""

    folder: str
    files: tuple[StoredFile, ...]

    @property
    def whole(self) -> bool:
        return any(file.key == f"{self.folder}/{_CHECKSUMS}" for file in self.files)

    @property
    def seen(self) -> int:
        return int(self.folder.rpartition("/")[2].partition("-")[0])

    @property
    def mark(self) -> str:
        return self.folder.rpartition("-")[2]

    @property
    def age_s(self) -> float:
        return time.time() - max(file.written for file in self.files)


class UploadedIndex:
    """The uploaded versions of one collection's index. `storage` is the store's own part of the shared storage."""

    def __init__(
        self, storage: SharedStorage, store: Store, tenant: str, collection: str, kind: str
    ) -> None:
        self._storage, self._store = storage, store
        self._tenant, self._collection = tenant, collection
        self._place = folder_of(Path(), tenant, f"{collection}\0{kind}\0{FORMAT}").name

    def may_be_there(self) -> bool:
        """Whether the collection is large enough that an index of it would be uploaded."""
        return self._store.size(self._tenant, self._collection).chunks >= LEAST

    def fetch(self, folder: Path) -> bool:
        """Copy the newest version into a folder without an index, whose write lock is held; whether it is there now."""
        incoming = folder.with_name(f"{folder.name}.incoming")
        try:
            shutil.rmtree(incoming, ignore_errors=True)
            found = self._newest()
            if found is None:
                return False
            incoming.mkdir(mode=0o700)
            names = self._download(found, incoming)
            mark = new_mark()  # its own: the store forgets marks that were followed by two others
            self._store.mark_index(self._tenant, self._collection, mark, former="")
            manifest = json.loads((incoming / _MANIFEST).read_bytes()) | {"mark": mark}
            for name in names:
                (incoming / name).replace(folder / name)
            write_whole(folder / _MANIFEST, json.dumps(manifest).encode())
        except (OSError, StoreError, ValueError, TypeError) as error:
            LOGGER.warning("the index of %r is built, not copied: %s", self._collection, error)
            return False
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
        return True

    def upload(self, folder: Path, *, seen: int, count: int) -> bool:
        """Upload the index in a folder, whose write lock is held, unless that is hardly newer; whether it was."""
        if count < LEAST:
            return False
        try:
            former = self._newest()
            if former and seen - former.seen < max(1, count // _PART):
                return False
            mark, before = new_mark(), former.mark if former else ""
            self._store.mark_index(self._tenant, self._collection, mark, former=before)
            self._upload(folder, f"{self._place}/{seen:020d}-{mark}", mark)
            self._delete_all_but(seen)
        except (OSError, StoreError, ValueError) as error:
            LOGGER.warning("the index of %r is not uploaded: %s", self._collection, error)
            return False
        return True

    def clear(self) -> None:
        """Delete what is uploaded, so that the next gateway builds the index anew."""
        try:
            for version in self._versions():
                self._delete(version)
        except OSError as error:
            raise StoreError(
                f"the uploaded index in {self._storage} cannot be deleted: {error.strerror}",
                hint="delete it by hand, or leave segments out of the address of the store",
            ) from error

    def _newest(self) -> _Version | None:
        """Of the complete versions that the store knows, the one that has seen the most changes."""
        versions = [version for version in self._versions() if version.whole]
        known = set(self._store.index_marks(self._tenant, self._collection)) if versions else set()
        known_versions = (version for version in versions if version.mark in known)
        return max(known_versions, key=lambda version: version.seen, default=None)

    def _versions(self) -> list[_Version]:
        folders: dict[str, list[StoredFile]] = defaultdict(list)
        for file in self._storage.list_files(self._place):
            folder, _, _ = file.key.rpartition("/")
            seen, dash, _ = folder.removeprefix(f"{self._place}/").partition("-")
            if dash and seen.isdecimal():
                folders[folder].append(file)
        return [_Version(folder, tuple(files)) for folder, files in folders.items()]

    def _download(self, version: _Version, target: Path) -> list[str]:
        """Copy the files of a version; the names of all but its manifest. DamagedIndex if one is not as it was
        written.
        """
        self._storage.download(f"{version.folder}/{_CHECKSUMS}", target / _CHECKSUMS)
        digests: object = json.loads((target / _CHECKSUMS).read_bytes())
        if not isinstance(digests, dict):
            raise DamagedIndex(f"{version.folder}/{_CHECKSUMS} lists no files")
        for name, digest in digests.items():
            if Path(name).name != name:
                raise DamagedIndex(f"{version.folder}/{_CHECKSUMS} names no files of its own")
            self._storage.download(f"{version.folder}/{name}", target / name)
            if _digest(target / name) != digest:
                raise DamagedIndex(f"{version.folder}/{name} does not match its checksum")
        return [name for name in digests if name != _MANIFEST]

    def _upload(self, folder: Path, version: str, mark: str) -> None:
        """Copy the files of an index; the checksums come last, because they mark a version as complete."""
        manifest = json.loads((folder / _MANIFEST).read_bytes()) | {"mark": mark}
        with TemporaryDirectory() as temporary:
            own = Path(temporary)
            (own / _MANIFEST).write_text(json.dumps(manifest))
            named = [name for entry in manifest["segments"] for name in entry.values() if name]
            files = [own / _MANIFEST, *(folder / name for name in named)]
            (own / _CHECKSUMS).write_text(json.dumps({file.name: _digest(file) for file in files}))
            for file in (*files, own / _CHECKSUMS):
                self._storage.upload(file, f"{version}/{file.name}")

    def _delete_all_but(self, seen: int) -> None:
        """Delete versions that have seen less, those of an undone history, and what dead gateways left."""
        known = self._store.index_marks(self._tenant, self._collection)
        for version in self._versions():
            old = version.seen < seen or version.mark not in known
            if old if version.whole else version.age_s > _ABANDONED_S:
                with suppress(OSError, StoreError):  # the next who uploads tries again
                    self._delete(version)

    def _delete(self, version: _Version) -> None:
        """Delete a version; its checksums first, so that no reader takes the rest for whole."""
        keys = [file.key for file in version.files]
        self._storage.delete(sorted(keys, key=lambda key: not key.endswith(f"/{_CHECKSUMS}")))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
