"""SharedCollection: a collection whose saved index other gateways may copy, and which copies theirs."""

from contextlib import suppress
from pathlib import Path

from millgate.index.collection import Collection
from millgate.index.folder import manifest_is_there, manifest_mark, write_lock
from millgate.index.shared.storage import SharedStorage
from millgate.index.shared.uploaded import UploadedIndex
from millgate.protocols import Embedder, Store


class SharedCollection(Collection):
    """The index of one collection in a folder, and its uploaded versions in storage that gateways share."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        name: str,
        *,
        folder: Path,
        storage: SharedStorage,
        embedder: Embedder | None = None,
    ) -> None:
        super().__init__(store, tenant, name, folder=folder, embedder=embedder)
        self._own_folder = folder
        self._uploaded = UploadedIndex(storage, store, tenant, name, self._kind)

    def flush(self, wait_s: float = -1) -> None:
        """Save what is not on disk yet, and upload it; not if another thread holds this collection."""
        super().flush(wait_s)
        if self._lock.acquire(timeout=wait_s):
            try:
                self._upload()
            finally:
                self._lock.release()

    def delete(self) -> None:
        """Delete the index here and what is uploaded of it."""
        super().delete()
        self._uploaded.clear()

    def _loads_fast(self) -> bool:
        return not self._can_copy()  # copying an index may take long

    def _load(self) -> None:
        if not self._opened:
            self._copy()
        super()._load()

    def _flush(self, *, least: int) -> bool:
        saved = super()._flush(least=least)
        if saved:
            self._upload()
        return saved

    def _can_copy(self) -> bool:
        """Whether there is no index in the folder and an uploaded one may be there to copy."""
        return not manifest_is_there(self._own_folder) and self._uploaded.may_be_there()

    def _copy(self) -> None:
        """Copy the uploaded index into the folder, unless the folder has one already."""
        if not self._can_copy():
            return
        with suppress(OSError), write_lock(self._own_folder) as locked:
            if locked and not manifest_is_there(self._own_folder):
                self._uploaded.fetch(self._own_folder)

    def _upload(self) -> None:
        """Upload the saved index if it is complete; UploadedIndex leaves out one that is hardly newer."""
        state = self._state
        if self._unsaved or not state.complete:
            return
        with suppress(OSError), write_lock(self._own_folder) as locked:
            if locked and manifest_mark(self._own_folder) == state.mark:
                self._uploaded.upload(self._own_folder, seen=state.seen, count=state.count)
